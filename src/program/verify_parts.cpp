#include "program/verify_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/check.h"
#include "program/print.h"
#include "sharding/rules.h"

namespace hidup {
namespace {

// Counts the coordinates of every rank by Axis::numbered. The executor divides rank numbers, so the
// proof shares no arithmetic with it.
std::vector<std::vector<int64_t>> count_coordinates(const Mesh& mesh) {
  std::vector<size_t> slowest_first(mesh.size());
  std::iota(slowest_first.begin(), slowest_first.end(), 0);
  std::ranges::stable_sort(slowest_first, {}, [&](size_t axis) { return mesh[axis].numbered; });
  std::vector<std::vector<int64_t>> all = {std::vector<int64_t>(mesh.size(), 0)};
  while (static_cast<int64_t>(all.size()) < ranks_of(mesh)) {
    std::vector<int64_t> next = all.back();
    for (size_t i = mesh.size(); i-- > 0;) {
      int64_t& coordinate = next[slowest_first[i]];
      coordinate = coordinate + 1 < mesh[slowest_first[i]].size ? coordinate + 1 : 0;
      if (coordinate > 0) {
        break;
      }
    }
    all.push_back(std::move(next));
  }
  return all;
}

class PartsCheck {
 private:
  auto describe(int i) const { return lazily_described(program_, i); }

 public:
  explicit PartsCheck(const Program& program)
      : program_(program),
        mesh_(program.mesh),
        ranks_(distinct_ranks(program)),
        coordinates_(count_coordinates(program.mesh)) {}

  void run() {
    std::ranges::for_each(mesh_, check_shares);
    check_coordinates();
    for_each_tensor([this](ValueId id) { check_value(program_.value(id)); });
    for_each_tensor([this](ValueId id) { check_regions(id); });  // relies on checked placements
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
      if (!collective_of(instruction.opcode).empty()) {
        check_group(i, instruction);
        check_exchanged(i, instruction);
      } else {
        check(instruction.group.empty(), "{} has a group, and communicates nothing", describe(i));
        check_present(i, instruction);
      }
      check_skipped(i, instruction);
    }
  }

 private:
  template <typename Use>
  void for_each_tensor(Use use) const {
    for (ValueId id = 0; id < static_cast<ValueId>(program_.values.size()); ++id) {
      if (program_.value(id).holds.empty()) {
        use(id);
      }
    }
  }

  static void check_shares(const Axis& axis) {
    for (const Share& share : axis.shares) {
      const bool in_range = std::ranges::all_of(
          share, [](int64_t weight) { return weight >= 0 && weight <= kMostWeight; });
      check(static_cast<int64_t>(share.size()) == axis.size && in_range &&
                std::ranges::count(share, 0) < axis.size,
            "the share {} of the axis {} is none of its {} ranks", share, axis.name, axis.size);
    }
  }

  void check_coordinates() const {
    for (size_t rank = 0; rank < coordinates_.size(); ++rank) {
      const std::vector<int64_t> found = coordinates_of(mesh_, static_cast<int64_t>(rank));
      check(found == coordinates_[rank], "rank {} is at [{}] of the mesh, not at [{}]", rank,
            fmt::join(coordinates_[rank], ", "), fmt::join(found, ", "));
    }
  }

  bool is_on(const Layout& layout, int64_t rank, int but_for = -1) const {
    const std::vector<int64_t>& at = coordinates_[static_cast<size_t>(rank)];
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      if (static_cast<int>(axis) != but_for &&
          !includes(mesh_[axis], layout[axis].share, at[axis])) {
        return false;
      }
    }
    return true;
  }

  void check_value(const Value& value) {
    check(value.layout.size() == mesh_.size(), "{} has {} placements on {} axes", value.name,
          value.layout.size(), mesh_.size());
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      const Placement& placement = value.layout[axis];
      check(has_share(mesh_[axis], placement.share), "{} is {}, which the axis {} does not have",
            value.name, lazy_text(placement), mesh_[axis].name);
      check(placement.is_shard() || placement.share == support_of(mesh_[axis], placement.share),
            "{} is {} along the axis {}, not by the first share of these ranks", value.name,
            lazy_text(placement), mesh_[axis].name);
      if (placement.is_shard()) {
        check_cut(value, axis);
      }
    }
  }

  // Checks one axis by itself, because an outer axis leaves parts that are cut alike.
  void check_cut(const Value& value, size_t axis) {
    const Placement& placement = value.layout[axis];
    check(placement.dim >= 0 && placement.dim < static_cast<int>(value.shape.size()),
          "{} is {} and has {} dimensions", value.name, lazy_text(placement), value.shape.size());
    const auto dim = static_cast<size_t>(placement.dim);
    const bool of_batch = placement.dim == value.batch.dim;
    const int64_t start = of_batch ? value.batch.start : 0;
    if (!cut_.insert({axis, to_string(placement.share), value.shape[dim], start}).second) {
      return;
    }
    const BatchPart batch =
        of_batch ? BatchPart{0, start, std::max(value.batch.global, start + value.shape[dim])}
                 : BatchPart{};
    int64_t end = start;
    for (int64_t coordinate = 0; coordinate < mesh_[axis].size; ++coordinate) {
      const Region part = region_of({value.shape[dim]}, {Placement::shard(0, placement.share)},
                                    {mesh_[axis]}, coordinate, batch);
      check(part.start[0] == end && part.extent[0] >= 0,
            "the parts of {} along the axis {} overlap or leave a gap", value.name,
            mesh_[axis].name);
      end += part.extent[0];
    }
    check(end == start + value.shape[dim], "the parts of {} along the axis {} are not all of it",
          value.name, mesh_[axis].name);
  }

  // Checks that a rank's part of a value is the part that remains after the cuts along all axes.
  void check_regions(ValueId id) {
    const Value& value = program_.value(id);
    if (!placed_.insert({value.layout, value.shape, value.batch.dim, value.batch.start}).second) {
      return;
    }
    for (const int64_t rank : ranks_) {
      const bool present = is_on(value.layout, rank);
      const Region found = program_.region(id, rank);
      check(program_.lies_on(id, rank) == present && (present || found.elements() == 0),
            "{} lies as {} on rank {}, which is taken for another", value.name,
            lazy_text(value.layout), rank);
      if (!present) {
        continue;
      }
      const Region wanted = part_left(value, rank);
      for (int d = 0; d < found.dims; ++d) {
        check(found.start[d] == wanted.start[d] && found.extent[d] == wanted.extent[d],
              "rank {} has {} from {} on of dimension {} of {} ({}), not {} from {} on", rank,
              found.extent[d], found.start[d], d, value.name, lazy_text(value.layout),
              wanted.extent[d], wanted.start[d]);
      }
    }
  }

  Region part_left(const Value& value, int64_t rank) const {
    Region left = region_of(value.shape, {}, {}, 0, value.batch);
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      const Placement& placement = value.layout[axis];
      if (placement.is_shard()) {
        const int d = placement.dim;
        const Region cut = region_of({left.extent[d]}, {Placement::shard(0, placement.share)},
                                     {mesh_[axis]}, coordinates_[static_cast<size_t>(rank)][axis],
                                     {0, left.start[d], left.global[d]});
        left.start[d] = cut.start[0];
        left.extent[d] = cut.extent[0];
      }
    }
    return left;
  }

  // Checks that the executor leaves out exactly the instructions of which a rank has no part.
  void check_skipped(int i, const Instruction& instruction) const {
    for (const int64_t rank : ranks_) {
      const bool wanted = has_no_part(instruction, rank);
      check(skips(program_, instruction, rank) == wanted, "{} is {} on rank {}, which has {} part",
            describe(i), wanted ? "done" : "skipped", rank, wanted ? "no" : "a");
    }
  }

  bool has_no_part(const Instruction& instruction, int64_t rank) const {
    if (collective_of(instruction.opcode).empty()) {
      return std::ranges::none_of(instruction.outputs, [&](ValueId id) {
        return program_.value(id).holds.empty() && is_on(program_.value(id).layout, rank);
      });
    }
    const int64_t at =
        coordinates_[static_cast<size_t>(rank)][static_cast<size_t>(instruction.axis)];
    Layout along_others = program_.value(instruction.inputs[0]).layout;
    for (const int inner : instruction.inner_axes) {
      along_others[static_cast<size_t>(inner)] = Placement::replicate();
    }
    return (!instruction.group.empty() && std::ranges::count(instruction.group, at) == 0) ||
           !is_on(along_others, rank, instruction.axis);
  }

  void check_present(int i, const Instruction& instruction) const {
    for (const int64_t rank : ranks_) {
      if (has_no_part(instruction, rank)) {
        continue;
      }
      for (const ValueId id : instruction.outputs) {
        check_present(i, id, rank);
      }
      if (spec_of(instruction.opcode).reshard != ReshardKind::place) {
        for (const ValueId id : instruction.inputs) {
          check_present(i, id, rank);
        }
      }
    }
  }

  void check_present(int i, ValueId id, int64_t rank) const {
    check(is_on(program_.value(id).layout, rank),
          "{} needs {} on rank {}, where it has no part ({})", describe(i), program_.value(id).name,
          rank, lazy_text(program_.value(id).layout));
  }

  void check_group(int i, const Instruction& collective) const {
    const auto axis = static_cast<size_t>(collective.axis);
    check(axis < mesh_.size() &&
              std::ranges::all_of(
                  collective.inner_axes,
                  [&](int inner) { return static_cast<size_t>(inner) < mesh_.size(); }),
          "{} works along no axis of the mesh", describe(i));
    std::set<int64_t> concerned;
    bool all = false;
    for (const auto* operands : {&collective.inputs, &collective.outputs}) {
      for (const ValueId id : *operands) {
        const Value& value = program_.value(id);
        if (!value.holds.empty() || all) {
          continue;
        }
        const ShareNumber share = value.layout[axis].share;
        all = share.is_equal();
        for (const int64_t rank : all ? std::vector<int64_t>{} : ranks_with(mesh_[axis], share)) {
          concerned.insert(rank);
        }
      }
    }
    check_along_others(i, collective);
    check(collective.inner_axes.empty() || is_joint_exchange(collective) ||
              is_equal_inside(collective),
          "{} goes along several axes among unequal parts", describe(i));
    all = all || is_joint_exchange(collective) ||
          static_cast<int64_t>(concerned.size()) == mesh_[axis].size;
    const std::vector<int64_t> wanted =
        all ? std::vector<int64_t>{} : std::vector<int64_t>(concerned.begin(), concerned.end());
    check(collective.group == wanted, "{} is done by the ranks [{}] of the axis {}, not by [{}]",
          describe(i), fmt::join(collective.group, ", "), mesh_[axis].name,
          fmt::join(wanted, ", "));
  }

  // Checks that the ranks of a joint all-to-all have together, once, the part that each receives.
  void check_exchanged(int i, const Instruction& collective) const {
    for (const int64_t rank : ranks_) {
      if (!is_joint_exchange(collective) || has_no_part(collective, rank)) {
        continue;
      }
      const std::vector<int64_t> peers = collective_group(program_, collective, rank);
      for (size_t v = 0; v < collective.inputs.size(); ++v) {
        const Region wanted = program_.region(collective.outputs[v], rank);
        int64_t found = 0;
        for (const int64_t peer : peers) {
          found += intersection(program_.region(collective.inputs[v], peer), wanted).elements();
        }
        check(found == wanted.elements(), "{} brings rank {} {} elements of {}, which needs {}",
              describe(i), rank, found, program_.value(collective.outputs[v]).name,
              wanted.elements());
      }
    }
  }

  // Returns true where all ranks of the collective's axes have equal parts of its operands.
  bool is_equal_inside(const Instruction& collective) const {
    bool equal = collective.group.empty();
    for (const auto* operands : {&collective.inputs, &collective.outputs}) {
      for (const ValueId id : *operands) {
        const Layout& layout = program_.value(id).layout;
        for (size_t axis = 0; axis < layout.size(); ++axis) {
          equal = equal && (!works_along(collective, axis) || layout[axis].share.is_equal());
        }
      }
    }
    return equal;
  }

  void check_along_others(int i, const Instruction& collective) const {
    const Layout wanted = along_others(collective.inputs.at(0), collective);
    for (const auto* operands : {&collective.inputs, &collective.outputs}) {
      for (const ValueId id : *operands) {
        if (program_.value(id).holds.empty()) {
          const Layout layout = along_others(id, collective);
          check(layout == wanted, "{} takes {} as {} along other axes than its own, not {}",
                describe(i), program_.value(id).name, lazy_text(layout), lazy_text(wanted));
        }
      }
    }
  }

  // Returns the layout without the collective's axes. A value may be summed in place along another
  // axis later.
  Layout along_others(ValueId id, const Instruction& collective) const {
    Layout layout = gradient_of(program_.value(id).layout);
    for (size_t axis = 0; axis < layout.size(); ++axis) {
      if (works_along(collective, axis)) {
        layout[axis] = Placement::replicate();
      }
    }
    return layout;
  }

  const Program& program_;
  const Mesh& mesh_;
  const std::vector<int64_t> ranks_;
  const std::vector<std::vector<int64_t>> coordinates_;  // per rank
  // Layouts and cuts checked so far.
  std::set<std::tuple<Layout, Shape, int, int64_t>> placed_;
  std::set<std::tuple<size_t, std::string, int64_t, int64_t>> cut_;
};

}  // namespace

void verify_parts(const Program& program) {
  PartsCheck(program).run();
}

}  // namespace hidup
