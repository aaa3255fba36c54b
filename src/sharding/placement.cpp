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

// Returns a part of balanced_offsets().
Part balanced_part(int64_t extent, int64_t parts, int64_t first, int64_t part) {
  const int64_t least = extent / parts;
  const int64_t larger = extent % parts;
  const int64_t begin = first % parts;  // the larger parts are begin, begin + 1, ... and around
  const int64_t before = std::clamp<int64_t>(part - begin, 0, larger) +
                         std::clamp<int64_t>(begin + larger - parts, 0, part);
  const int64_t turn = (part - begin + parts) % parts;
  return {part * least + before, least + (turn < larger ? 1 : 0)};
}

// Empties the region; a scalar's gets a dimension for that.
void empty(Region& region) {
  if (region.dims == 0) {
    region.dims = 1;
    region.global[0] = 1;
  }
  region.extent[0] = 0;
}

// Returns the part of the rank with that coordinate, of a range that begins at `start`.
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

int64_t stride_of(const Mesh& mesh, size_t axis) {
  int64_t stride = 1;
  for (size_t a = 0; a < mesh.size(); ++a) {
    if (std::pair(mesh[a].numbered, a) > std::pair(mesh[axis].numbered, axis)) {
      stride *= mesh[a].size;
    }
  }
  return stride;
}

int64_t coordinate_of(const Mesh& mesh, int64_t rank, size_t axis) {
  return rank / stride_of(mesh, axis) % mesh[axis].size;
}

std::vector<int64_t> coordinates_of(const Mesh& mesh, int64_t rank) {
  std::vector<int64_t> coordinates;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    coordinates.push_back(coordinate_of(mesh, rank, axis));
  }
  return coordinates;
}

std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, size_t axis) {
  const int64_t stride = stride_of(mesh, axis);
  const int64_t first = rank - coordinate_of(mesh, rank, axis) * stride;
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < mesh[axis].size; ++i) {
    ranks.push_back(first + i * stride);
  }
  return ranks;
}

std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, std::span<const size_t> axes) {
  std::vector<int64_t> ranks = {rank};
  for (const size_t axis : axes) {
    std::vector<int64_t> more;
    for (const int64_t each : ranks) {
      const std::vector<int64_t> along = group_of(mesh, each, axis);
      more.insert(more.end(), along.begin(), along.end());
    }
    ranks = std::move(more);
  }
  std::ranges::sort(ranks);
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

namespace {

void check_share(const Axis& axis, ShareNumber share) {
  if (!has_share(axis, share)) {  // check() would format the share, which is slow
    fail(ExitCode::internal, "axis {} has no share {}", axis.name, to_string(share));
  }
}

}  // namespace

bool includes(const Axis& axis, ShareNumber share, int64_t coordinate) {
  if (share.is_equal()) {
    return true;
  }
  check_share(axis, share);
  return share.is_one_rank() ? share.rank() == coordinate
                             : axis.shares[static_cast<size_t>(share.number()) - 1]
                                          [static_cast<size_t>(coordinate)] > 0;
}

std::vector<int64_t> ranks_with(const Axis& axis, ShareNumber share) {
  if (share.is_one_rank()) {
    check_share(axis, share);
    return {share.rank()};
  }
  std::vector<int64_t> ranks;
  for (int64_t coordinate = 0; coordinate < axis.size; ++coordinate) {
    if (includes(axis, share, coordinate)) {
      ranks.push_back(coordinate);
    }
  }
  return ranks;
}

ShareNumber support_of(const Axis& axis, ShareNumber share) {
  if (share.is_equal()) {
    return share;
  }
  const std::vector<int64_t> ranks = ranks_with(axis, share);
  if (static_cast<int64_t>(ranks.size()) == axis.size) {
    return {};
  }
  if (ranks.size() == 1) {
    return ShareNumber::only(ranks[0]);
  }
  ShareNumber first = ShareNumber::of(1);
  while (ranks_with(axis, first) != ranks) {
    first = ShareNumber::of(first.number() + 1);
  }
  return first;
}

namespace {

// Returns weights of 1 for the ranks that the share includes.
Share included(const Axis& axis, ShareNumber share) {
  Share equal;
  for (int64_t coordinate = 0; coordinate < axis.size; ++coordinate) {
    equal.push_back(includes(axis, share, coordinate) ? 1 : 0);
  }
  return equal;
}

}  // namespace

Mesh with_equal_shares(Mesh mesh) {
  for (Axis& axis : mesh) {
    const auto given = static_cast<int64_t>(axis.shares.size());
    for (int64_t number = 1; number <= given; ++number) {
      const ShareNumber support = support_of(axis, ShareNumber::of(number));
      const bool named = support.is_equal() || support.is_one_rank();
      const Share equal = included(axis, support);
      if (!named && std::ranges::find(axis.shares, equal) == axis.shares.end()) {
        axis.shares.push_back(equal);
      }
    }
  }
  return mesh;
}

ShareNumber equal_among(const Axis& axis, ShareNumber share) {
  const ShareNumber support = support_of(axis, share);
  if (support.is_equal() || support.is_one_rank()) {
    return support;
  }
  const auto found = std::ranges::find(axis.shares, included(axis, support));
  check(found != axis.shares.end(), "axis {} has no equal share of the ranks of {}", axis.name,
        to_string(share));
  return ShareNumber::of(found - axis.shares.begin() + 1);
}

size_t axes_in_use(const Mesh& mesh) {
  return static_cast<size_t>(
      std::ranges::count_if(mesh, [](const Axis& axis) { return axis.size > 1; }));
}

Placement with_share(Placement placement, const Axis& axis, ShareNumber share) {
  placement.share = placement.is_shard() ? share : support_of(axis, share);
  return placement;
}

std::string to_string(const Placement& placement) {
  const std::string share = to_string(placement.share);
  switch (placement.kind) {
    case Placement::Kind::shard:
      return fmt::format("S({}){}", placement.dim, share);
    case Placement::Kind::partial:
      return "P" + share;
    case Placement::Kind::replicate:
      break;
  }
  return "R" + share;
}

std::string to_string(const Layout& layout) {
  std::string text;
  for (const Placement& placement : layout) {
    text += (text.empty() ? "" : " ") + to_string(placement);
  }
  return text;
}

std::optional<Placement> parse_placement(std::string_view text) {
  std::vector<Placement> equal = {Placement::replicate(), Placement::partial()};
  for (int dim = 0; dim < kMaxDims; ++dim) {
    equal.push_back(Placement::shard(dim));
  }
  for (Placement placement : equal) {
    const std::string start = to_string(placement);
    const std::optional<ShareNumber> share =
        text.starts_with(start) ? parse_share_number(text.substr(start.size())) : std::nullopt;
    if (share) {
      placement.share = *share;
      return placement;
    }
  }
  return std::nullopt;
}

bool lies_on(const Layout& layout, const Mesh& mesh, int64_t rank, int but_for) {
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const ShareNumber share = layout[axis].share;
    if (!share.is_equal() && static_cast<int>(axis) != but_for &&
        !includes(mesh[axis], share, coordinate_of(mesh, rank, axis))) {
      return false;
    }
  }
  return true;
}

Layout summed_parts(Layout layout, const Mesh& mesh) {
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (layout[axis].is_shard()) {
      layout[axis] = Placement::partial(support_of(mesh[axis], layout[axis].share));
    }
  }
  return layout;
}

bool covers(const Layout& held, const Layout& wanted, const Mesh& mesh) {
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const bool whole = held[axis].is_replicate() && wanted[axis].is_replicate();
    if (held[axis] != wanted[axis] &&
        !(whole && std::ranges::includes(ranks_with(mesh[axis], held[axis].share),
                                         ranks_with(mesh[axis], wanted[axis].share)))) {
      return false;
    }
  }
  return true;
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
  for (size_t a = 0; a < mesh.size(); ++a) {
    const int64_t coordinate = coordinate_of(mesh, rank, a);
    if (!layout[a].is_shard()) {
      if (!includes(mesh[a], layout[a].share, coordinate)) {
        empty(region);
      }
      continue;
    }
    const int d = layout[a].dim;
    if (d < 0 || d >= region.dims) {
      fail(ExitCode::internal, "{} of a tensor of {} dimensions", to_string(layout[a]),
           region.dims);
    }
    const Part part =
        part_of(mesh[a], layout[a].share, region.extent[d], region.start[d], coordinate);
    region.start[d] += part.start;
    region.extent[d] = part.extent;
  }
  return region;
}

namespace {

// Reduces the shape to its largest part, which the next axis cuts.
void leave_largest_part(Shape& shape, const Placement& placement, const Axis& axis) {
  if (placement.is_shard() && placement.share.is_equal()) {
    int64_t& extent = shape[static_cast<size_t>(placement.dim)];
    extent = (extent + axis.size - 1) / axis.size;
  }
}

// Returns the shape without the dimensions that axes inside of this one, which are not flagged,
// cut.
Shape uncut_inside(Shape shape, const std::vector<bool>& axes, const Layout& layout,
                   const Mesh& mesh, size_t axis) {
  for (size_t inner = axis + 1; inner < mesh.size(); ++inner) {
    if (!axes[inner] && mesh[inner].size > 1 && layout[inner].is_shard() &&
        layout[inner].share.is_equal()) {
      shape[static_cast<size_t>(layout[inner].dim)] = 0;
    }
  }
  return shape;
}

// Returns the first dimension with a part for each of the ranks, if there is one.
std::optional<int> long_enough(const Shape& shape, int64_t ranks) {
  const int dim = storage_shard(shape, ranks).dim;
  return shape[static_cast<size_t>(dim)] >= ranks ? std::optional(dim) : std::nullopt;
}

}  // namespace

Placement storage_shard(const Shape& shape, int64_t ranks) {
  const auto enough = std::ranges::find_if(shape, [&](int64_t n) { return n >= ranks; });
  const auto dim = enough != shape.end() ? enough : std::ranges::max_element(shape);
  return Placement::shard(static_cast<int>(dim - shape.begin()));
}

Layout sharded_on(const std::vector<bool>& axes, Layout layout, Shape shape, const Mesh& mesh) {
  int64_t ranks_left = 1;  // of the flagged axes that are left
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (axes[axis]) {
      ranks_left *= mesh[axis].size;
    } else {
      leave_largest_part(shape, layout[axis], mesh[axis]);
    }
  }
  std::optional<int> of_all;  // the dimension that all axes left cut
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (!axes[axis]) {
      continue;
    }
    const Shape open = uncut_inside(shape, axes, layout, mesh, axis);
    of_all = of_all ? of_all : long_enough(open, ranks_left);
    const std::optional<int> dim = of_all ? of_all : long_enough(open, mesh[axis].size);
    layout[axis] = Placement::shard(dim ? *dim : storage_shard(shape, mesh[axis].size).dim,
                                    layout[axis].share);
    leave_largest_part(shape, layout[axis], mesh[axis]);
    ranks_left /= mesh[axis].size;
  }
  return layout;
}

Shape shape_of(const Region& region) {
  return {region.extent, region.extent + region.dims};
}

}  // namespace hidup
