// Where a tensor lies on the ranks.
//
// A mesh has the axis of the slowest links first (mesh_of()), whatever the order in the deck,
// which only numbers the ranks (Axis::numbered). Only coordinate_of() turns a rank into its place
// on an axis; the verifier counts the places by itself.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/region.h"
#include "core/shape.h"
#include "sharding/share.h"

namespace hidup {

// One named axis of the ranks; the mesh has its axes outermost first, those of slow links.
struct Axis {
  std::string name;
  int64_t size = 1;
  std::vector<Share> shares = {};  // that placements may name, by numbers from 1 on
  // Ranks are numbered along the axes by this, the largest first; of equal ones the last axis
  // first.
  int numbered = 0;
};
using Mesh = std::vector<Axis>;

// The number of axes with more than one rank.
size_t axes_in_use(const Mesh& mesh);

int64_t ranks_of(const Mesh& mesh);
// From a rank to the next one along the axis.
int64_t stride_of(const Mesh& mesh, size_t axis);
// Where the rank stands on the axis, from 0 on; rank = sum of coordinates times strides.
int64_t coordinate_of(const Mesh& mesh, int64_t rank, size_t axis);
// One coordinate per axis.
std::vector<int64_t> coordinates_of(const Mesh& mesh, int64_t rank);
// The ranks that differ from this one in their coordinate on the axis only, in its order.
std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, size_t axis);
// The ranks that differ in their coordinates on these axes only, rising.
std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, std::span<const size_t> axes);

// Which ranks of an axis have a tensor, and how the parts of a shard relate: all ranks in equal
// parts, as one of the axis's shares says, or one rank alone.
class ShareNumber {
 public:
  constexpr ShareNumber() = default;  // equal
  // Of Axis::shares, from 1 on.
  static constexpr ShareNumber of(int64_t number) { return ShareNumber(number); }
  static constexpr ShareNumber only(int64_t rank) { return ShareNumber(-1 - rank); }

  constexpr bool is_equal() const { return code_ == 0; }
  constexpr bool is_one_rank() const { return code_ < 0; }
  constexpr int64_t number() const { return code_; }     // of one of the axis's shares
  constexpr int64_t rank() const { return -1 - code_; }  // that has all
  constexpr auto operator<=>(const ShareNumber&) const = default;

 private:
  constexpr explicit ShareNumber(int64_t code) : code_(code) {}

  int64_t code_ = 0;
};

// "", "%2" (the axis's second share), "@0" (all on its first rank); and the inverse, none where the
// text is not such a number.
std::string to_string(ShareNumber share);
std::optional<ShareNumber> parse_share_number(std::string_view text);
// Whether the axis has that share, or that rank.
bool has_share(const Axis& axis, ShareNumber share);
// Whether the rank of that coordinate has a weight above 0: otherwise it has nothing.
bool includes(const Axis& axis, ShareNumber share, int64_t coordinate);
// The coordinates that it includes, rising.
std::vector<int64_t> ranks_with(const Axis& axis, ShareNumber share);
// One number for all shares that include the same ranks: equal where those are all, the rank where
// it is one, otherwise the first of the axis's shares that does.
ShareNumber support_of(const Axis& axis, ShareNumber share);

// The mesh with, behind the shares of each axis, those by which the ranks that some share includes
// have equal parts: what equal_among() finds.
Mesh with_equal_shares(Mesh mesh);
// The number by which the ranks that this share includes have equal parts.
ShareNumber equal_among(const Axis& axis, ShareNumber share);

// Of one tensor on one axis: the ranks that the share includes have all of it, a part of dimension
// `dim`, or a summand of it each; the others have nothing. Unless it is a shard, only which ranks
// those are counts, so the share is a support_of().
struct Placement {
  enum class Kind { replicate, shard, partial };
  Kind kind = Kind::replicate;
  int dim = 0;  // shard only
  ShareNumber share = {};

  static Placement replicate(ShareNumber share = {}) { return {Kind::replicate, 0, share}; }
  static Placement shard(int dim, ShareNumber share = {}) { return {Kind::shard, dim, share}; }
  static Placement on_first_rank() { return shard(0, ShareNumber::only(0)); }
  static Placement partial(ShareNumber share = {}) { return {Kind::partial, 0, share}; }
  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_partial() const { return kind == Kind::partial; }
  // Equal on all ranks, or a shard that is all on the first one: what files of format 1 have.
  bool is_plain() const {
    return share.is_equal() || (is_shard() && share == ShareNumber::only(0));
  }
  auto operator<=>(const Placement&) const = default;
};
// The same in parts of that share of the axis, on the ranks that it includes.
Placement with_share(Placement placement, const Axis& axis, ShareNumber share);

// One placement per axis of the mesh.
using Layout = std::vector<Placement>;

// "R", "R%1", "S(0)", "S(0)%2", "S(0)@0", "P", "P%1"
std::string to_string(const Placement& placement);
std::string to_string(const Layout& layout);  // "S(0) R"
// The inverse of to_string(Placement); none where the text is not a placement.
std::optional<Placement> parse_placement(std::string_view text);
// Whether the rank has a part of what lies so, which may still be empty; but for that axis, by the
// others alone (-1: by all).
bool lies_on(const Layout& layout, const Mesh& mesh, int64_t rank, int but_for = -1);
// How a sum over all elements lies where every rank sums what it has: partial where it is cut.
Layout summed_parts(Layout layout, const Mesh& mesh);
// Whether every rank that has a part of what lies as `wanted` has the same of what lies as `held`.
bool covers(const Layout& held, const Layout& wanted, const Mesh& mesh);
// Where a parameter of this shape is stored in parts: in the first dimension that each of so many
// ranks gets a part of, or else in the longest. The shape has at least one dimension.
Placement storage_shard(const Shape& shape, int64_t ranks);
// A parameter's layout, sharded on those axes (one flag each), too: outermost first, each in the
// dimension that storage_shard() takes of what is left. The cuts of an inner axis stay where they
// are: a part of one of its parts is no part of what it has, and would have to be gathered along
// both axes. So another dimension is taken, where there is one that is long enough.
Layout sharded_on(const std::vector<bool>& axes, Layout layout, Shape shape, const Mesh& mesh);

// Offsets of `parts` balanced parts of `extent`: parts + 1 values from 0 to extent; extent % parts
// of them have one more, from part `first` on and around. A part may be empty.
std::vector<int64_t> balanced_offsets(int64_t extent, int64_t parts, int64_t first = 0);

// That a tensor is only a part of a larger one along its batch dimension: a microbatch.
struct BatchPart {
  int dim = -1;  // -1: it is not
  int64_t start = 0;
  int64_t global = 0;
};

// The part of a tensor that a rank holds, nothing where it does not lie on the rank; starts and
// global extents are those of the larger tensor. Where several axes shard one dimension, the outer
// axis cuts first. A range that begins at s has the seats from s on (share.h), so that the
// microbatches of a batch, one behind the other, burden the ranks like the whole batch.
Region region_of(const Shape& shape, const Layout& layout, const Mesh& mesh, int64_t rank,
                 const BatchPart& batch = {});
Shape shape_of(const Region& region);

}  // namespace hidup
