#include "sharding/placement.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string to_string(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::shard:
      return fmt::format("S({}){}", placement.dim, placement.first ? "@0" : "");
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
  for (int dim = 0; dim < kMaxDims; ++dim) {
    for (const Placement& placement :
         {Placement::replicate(), Placement::partial(), Placement::shard(dim),
          Placement{Placement::Kind::shard, dim, true}}) {
      if (text == to_string(placement)) {
        return placement;
      }
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
    Part part = balanced_part(region.extent[d], mesh[a].size, region.start[d], coordinate);
    if (layout[a].first) {
      part = coordinate == 0 ? Part{0, region.extent[d]} : Part{region.extent[d], 0};
    }
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
