#include "sharding/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/check.h"

namespace hidup {
namespace {

struct Part {
  int64_t start = 0, extent = 0;
};

// One of the parts of balanced_offsets().
Part balanced_part(int64_t extent, int64_t parts, int64_t first, int64_t part) {
  const int64_t least = extent / parts;
  const int64_t larger = extent % parts;
  const int64_t begin = first % parts;  // the larger parts are begin, begin + 1, ... and around
  const int64_t before = std::clamp<int64_t>(part - begin, 0, larger) +
                         std::clamp<int64_t>(begin + larger - parts, 0, part);
  const int64_t turn = (part - begin + parts) % parts;
  return {part * least + before, least + (turn < larger ? 1 : 0)};
}

// The part of the rank with that coordinate, of a range that begins at `start`.
Part part_of(const Axis& axis, ShareNumber share, int64_t extent, int64_t start,
             int64_t coordinate) {
  if (share.is_equal()) {
    return balanced_part(extent, axis.size, start, coordinate);
  }
  check(has_share(axis, share), "axis {} has no share {}", axis.name, to_string(share));
  if (share.is_one_rank()) {
    return {coordinate <= share.rank() ? 0 : extent, coordinate == share.rank() ? extent : 0};
  }
  const std::vector<int64_t> offsets =
      offsets_of(axis.shares[static_cast<size_t>(share.number()) - 1], extent, start);
  const auto at = static_cast<size_t>(coordinate);
  return {offsets[at], offsets[at + 1] - offsets[at]};
}

}  // namespace

int64_t ranks_of(const Mesh& mesh) {
  int64_t ranks = 1;
  for (const Axis& axis : mesh) {
    ranks *= axis.size;
  }
  return ranks;
}

std::vector<int64_t> coordinates_of(const Mesh& mesh, int64_t rank) {
  std::vector<int64_t> coordinates(mesh.size());
  for (size_t a = mesh.size(); a-- > 0;) {
    coordinates[a] = rank % mesh[a].size;
    rank /= mesh[a].size;
  }
  return coordinates;
}

std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, size_t axis) {
  int64_t stride = 1;
  for (size_t a = axis + 1; a < mesh.size(); ++a) {
    stride *= mesh[a].size;
  }
  const int64_t first = rank - coordinates_of(mesh, rank)[axis] * stride;
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < mesh[axis].size; ++i) {
    ranks.push_back(first + i * stride);
  }
  return ranks;
}

std::string to_string(ShareNumber share) {
  if (share.is_equal()) {
    return "";
  }
  return share.is_one_rank() ? fmt::format("@{}", share.rank())
                             : fmt::format("%{}", share.number());
}

std::optional<ShareNumber> parse_share_number(std::string_view text) {
  int64_t number = 0;
  const std::string_view digits = text.empty() ? text : text.substr(1);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  for (const ShareNumber share :
       {ShareNumber(), ShareNumber::of(number), ShareNumber::only(number)}) {
    if (number >= 0 && text == to_string(share)) {
      return share;
    }
  }
  return std::nullopt;
}

bool has_share(const Axis& axis, ShareNumber share) {
  return share.is_one_rank() ? share.rank() < axis.size
                             : share.number() <= static_cast<int64_t>(axis.shares.size());
}

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::shard:
      return fmt::format("S({}){}", placement.dim, to_string(placement.share));
    case Placement::Kind::partial:
      return "P";
    case Placement::Kind::replicate:
      break;
  }
  return "R";
}

std::string to_string(const Layout& layout) {
  std::string text;
  for (const Placement& placement : layout) {
    text += (text.empty() ? "" : " ") + to_string(placement);
  }
  return text;
}

std::optional<Placement> parse_placement(std::string_view text) {
  for (const Placement& whole : {Placement::replicate(), Placement::partial()}) {
    if (text == to_string(whole)) {
      return whole;
    }
  }
  for (int dim = 0; dim < kMaxDims; ++dim) {
    const std::string shard = to_string(Placement::shard(dim));
    if (text.starts_with(shard)) {
      const std::optional<ShareNumber> share = parse_share_number(text.substr(shard.size()));
      return share ? std::optional(Placement::shard(dim, *share)) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::vector<int64_t> balanced_offsets(int64_t extent, int64_t parts, int64_t first) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(parts) + 1);
  for (int64_t part = 0; part < parts; ++part) {
    offsets.push_back(balanced_part(extent, parts, first, part).start);
  }
  offsets.push_back(extent);
  return offsets;
}

Region region_of(const Shape& shape, const Layout& layout, const Mesh& mesh, int64_t rank,
                 const BatchPart& batch) {
  check(shape.size() <= kMaxDims, "a tensor of {} dimensions; {} are possible", shape.size(),
        kMaxDims);
  check(layout.size() == mesh.size(), "{} placements on a mesh of {} axes", layout.size(),
        mesh.size());
  Region region;
  region.dims = static_cast<int>(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    region.extent[d] = region.global[d] = shape[d];
  }
  if (batch.dim >= 0) {
    region.start[batch.dim] = batch.start;
    region.global[batch.dim] = batch.global;
  }
  int64_t inner = ranks_of(mesh);  // ranks that have this axis's coordinate and the outer ones
  for (size_t a = 0; a < mesh.size(); ++a) {
    inner /= mesh[a].size;
    if (!layout[a].is_shard()) {
      continue;
    }
    const int d = layout[a].dim;
    if (d < 0 || d >= region.dims) {
      fail(ExitCode::internal, "{} of a tensor of {} dimensions", to_string(layout[a]),
           region.dims);
    }
    const int64_t coordinate = rank / inner % mesh[a].size;
    const Part part =
        part_of(mesh[a], layout[a].share, region.extent[d], region.start[d], coordinate);
    region.start[d] += part.start;
    region.extent[d] = part.extent;
  }
  return region;
}

Placement storage_shard(const Shape& shape, int64_t ranks) {
  const auto enough = std::ranges::find_if(shape, [&](int64_t n) { return n >= ranks; });
  const auto dim = enough != shape.end() ? enough : std::ranges::max_element(shape);
  return Placement::shard(static_cast<int>(dim - shape.begin()));
}

Shape shape_of(const Region& region) {
  return {region.extent, region.extent + region.dims};
}

}  // namespace hidup
