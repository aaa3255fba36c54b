// Placements of tensors on ranks.
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

// A named axis of the ranks. A mesh has its axes outermost first; outer axes have the slow links.
struct Axis {
  std::string name;
  int64_t size = 1;
  std::vector<Share> shares = {};  // placements name them by numbers from 1 on
  // Orders the numbering of ranks: the axis with the largest value has stride 1; of axes with equal
  // values, the last one comes first.
  int numbered = 0;
  // The relative paces at which ranks compute, by coordinate; empty: all are alike. On a mesh of
  // several axes, the pace of the slowest rank at the coordinate.
  std::vector<double> paces = {};
};
using Mesh = std::vector<Axis>;

// Returns the number of axes with more than one rank.
size_t axes_in_use(const Mesh& mesh);

int64_t ranks_of(const Mesh& mesh);
// Returns the difference between the numbers of neighbours along the axis.
int64_t stride_of(const Mesh& mesh, size_t axis);
// Returns the rank's coordinate on the axis, from 0 on; rank = sum of coordinates times strides.
int64_t coordinate_of(const Mesh& mesh, int64_t rank, size_t axis);
// Returns one coordinate per axis.
std::vector<int64_t> coordinates_of(const Mesh& mesh, int64_t rank);
// Returns the ranks that differ from this one only in their coordinate on the axis, in its order.
std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, size_t axis);
// Returns the ranks that differ only in their coordinates on these axes, rising.
std::vector<int64_t> group_of(const Mesh& mesh, int64_t rank, std::span<const size_t> axes);

// The ranks of an axis that have a tensor, and the proportions of a shard's parts: all ranks with
// equal parts, one of the axis's shares, or one rank alone.
class ShareNumber {
 public:
  constexpr ShareNumber() = default;  // equal parts
  // Takes a number of Axis::shares, from 1 on.
  static constexpr ShareNumber of(int64_t number) { return ShareNumber(number); }
  static constexpr ShareNumber only(int64_t rank) { return ShareNumber(-1 - rank); }

  constexpr bool is_equal() const { return code_ == 0; }
  constexpr bool is_one_rank() const { return code_ < 0; }
  constexpr int64_t number() const { return code_; }     // number of one of the axis's shares
  constexpr int64_t rank() const { return -1 - code_; }  // rank that has all
  // NOLINTNEXTLINE(modernize-use-nullptr): the check takes the default's 0 for a pointer
  constexpr auto operator<=>(const ShareNumber&) const = default;

 private:
  constexpr explicit ShareNumber(int64_t code) : code_(code) {}

  int64_t code_ = 0;
};

// Formats a share as "", "%2" (the axis's second share) or "@0" (all on its first rank). The
// inverse returns nothing for other texts.
std::string to_string(ShareNumber share);
std::optional<ShareNumber> parse_share_number(std::string_view text);
// Returns true if the axis has that share, or that rank.
bool has_share(const Axis& axis, ShareNumber share);
// Returns true if the rank of that coordinate has a weight above 0. Other ranks have nothing.
bool includes(const Axis& axis, ShareNumber share, int64_t coordinate);
// Returns the coordinates that the share includes, rising.
std::vector<int64_t> ranks_with(const Axis& axis, ShareNumber share);
// Returns the same number for all shares that include the same ranks: equal for all ranks, the rank
// for a single one, otherwise the first of the axis's shares that includes them.
ShareNumber support_of(const Axis& axis, ShareNumber share);

// Adds shares to each axis, so that for every share there is one with equal parts for the same
// ranks, which equal_among() finds.
Mesh with_equal_shares(Mesh mesh);
// Returns the share with equal parts for the ranks that this share includes.
ShareNumber equal_among(const Axis& axis, ShareNumber share);

// The placement of a tensor on one axis. Each rank that the share includes has all of the tensor, a
// part of dimension `dim`, or a summand; the others have nothing. Unless it is a shard, only the
// set of ranks counts, so the share is a support_of().
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
  // Returns true for equal shares and for shards all on the first rank: the placements of format 1.
  bool is_plain() const {
    return share.is_equal() || (is_shard() && share == ShareNumber::only(0));
  }
  // NOLINTNEXTLINE(modernize-use-nullptr): as above
  auto operator<=>(const Placement&) const = default;
};
// Returns the placement with that share of the axis, on the ranks that the share includes.
Placement with_share(Placement placement, const Axis& axis, ShareNumber share);

// One placement per axis of the mesh.
using Layout = std::vector<Placement>;

// Format placements as "R", "R%1", "S(0)", "S(0)%2", "S(0)@0", "P", "P%1", layouts as "S(0) R".
std::string to_string(const Placement& placement);
std::string to_string(const Layout& layout);
// Parses a text of to_string(Placement). Returns nothing where the text is not a placement.
std::optional<Placement> parse_placement(std::string_view text);
// Returns true if the rank has a part, maybe empty, of this layout, ignoring the axis `but_for`.
bool lies_on(const Layout& layout, const Mesh& mesh, int64_t rank, int but_for = -1);
// Returns the layout of a sum over all elements, summed by parts: partial instead of shards.
Layout summed_parts(Layout layout, const Mesh& mesh);
// Returns true if every rank with a part in layout `wanted` has the same part in layout `held`.
bool covers(const Layout& held, const Layout& wanted, const Mesh& mesh);
// Returns the shard in which a parameter of this shape is stored: in the first dimension that gives
// each of this many ranks a part, or else in the longest. The shape has at least one dimension.
Placement storage_shard(const Shape& shape, int64_t ranks);
// Returns a parameter's layout, sharded also on the flagged axes: in the dimension that
// storage_shard() takes for all of them, which one collective can then gather, or else outermost
// first, each in the dimension that storage_shard() takes of the remaining shape. A dimension that
// an inner axis cuts is avoided where another is long enough: cut twice, it is gathered along both.
Layout sharded_on(const std::vector<bool>& axes, Layout layout, Shape shape, const Mesh& mesh);

// Returns the offsets of `parts` balanced parts of `extent`: parts + 1 values from 0 to extent.
// extent % parts of them have one element more, from part `first` on, cyclically; parts may be
// empty.
std::vector<int64_t> balanced_offsets(int64_t extent, int64_t parts, int64_t first = 0);

// The part that a microbatch has of a larger tensor, along the batch dimension.
struct BatchPart {
  int dim = -1;  // -1: the tensor is not a part
  int64_t start = 0;
  int64_t global = 0;
};

// Returns the part of a tensor that a rank holds, without elements where it holds none; starts and
// global extents are those of the larger tensor. Where several axes shard one dimension, the outer
// axis cuts first. A range that begins at s has the seats from s on (share.h), so that the
// microbatches of a batch load the ranks like the whole batch.
Region region_of(const Shape& shape, const Layout& layout, const Mesh& mesh, int64_t rank,
                 const BatchPart& batch = {});
Shape shape_of(const Region& region);

}  // namespace hidup
