#include "sharding/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"

namespace hidup {

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
  std::vector<int64_t> offsets = {0};
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t turn = (part - first % parts + parts) % parts;
    offsets.push_back(offsets.back() + extent / parts + (turn < extent % parts ? 1 : 0));
  }
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
  const std::vector<int64_t> coordinates = coordinates_of(mesh, rank);
  for (size_t a = 0; a < mesh.size(); ++a) {
    if (!layout[a].is_shard()) {
      continue;
    }
    const int d = layout[a].dim;
    check(d >= 0 && d < region.dims, "{} of a tensor of {} dimensions", to_string(layout[a]),
          region.dims);
    auto offsets = balanced_offsets(region.extent[d], mesh[a].size, region.start[d]);
    if (layout[a].first) {
      std::fill(offsets.begin() + 1, offsets.end(), region.extent[d]);
    }
    const auto at = static_cast<size_t>(coordinates[a]);
    region.start[d] += offsets[at];
    region.extent[d] = offsets[at + 1] - offsets[at];
  }
  return region;
}

Shape shape_of(const Region& region) {
  return {region.extent, region.extent + region.dims};
}

}  // namespace hidup
