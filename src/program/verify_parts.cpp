#include "program/verify_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/check.h"
#include "program/print.h"
#include "sharding/rules.h"

namespace hidup {
namespace {

class PartsCheck {
 public:
  explicit PartsCheck(const Program& program)
      : program_(program), mesh_(program.mesh), ranks_(distinct_ranks(program)) {}

  void run() {
    std::ranges::for_each(mesh_, check_shares);
    for (size_t v = 0; v < program_.values.size(); ++v) {
      if (program_.values[v].holds.empty()) {
        check_value(program_.values[v]);
      }
    }
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
      if (!collective_of(instruction.opcode).empty()) {
        check_group(i, instruction);
      } else {
        check(instruction.group.empty(), "{} has a group, and communicates nothing", describe(i));
        check_present(i, instruction);
      }
    }
  }

 private:
  std::string describe(int i) const { return hidup::describe(program_, i); }

  static void check_shares(const Axis& axis) {
    for (const Share& share : axis.shares) {
      const bool in_range = std::ranges::all_of(
          share, [](int64_t weight) { return weight >= 0 && weight <= kMostWeight; });
      check(static_cast<int64_t>(share.size()) == axis.size && in_range &&
                std::ranges::count(share, 0) < axis.size,
            "the share {} of the axis {} is none of its {} ranks", share, axis.name, axis.size);
    }
  }

  void check_value(const Value& value) {
    check(value.layout.size() == mesh_.size(), "{} has {} placements on {} axes", value.name,
          value.layout.size(), mesh_.size());
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      const Placement& placement = value.layout[axis];
      check(has_share(mesh_[axis], placement.share), "{} is {}, which the axis {} does not have",
            value.name, to_string(placement), mesh_[axis].name);
      check(placement.is_shard() || placement.share == support_of(mesh_[axis], placement.share),
            "{} is {} along the axis {}, not by the first share of these ranks", value.name,
            to_string(placement), mesh_[axis].name);
      if (placement.is_shard()) {
        check_cut(value, axis);
      }
    }
  }

  // Along one axis by itself: what an outer one leaves is cut alike.
  void check_cut(const Value& value, size_t axis) {
    const Placement& placement = value.layout[axis];
    check(placement.dim >= 0 && placement.dim < static_cast<int>(value.shape.size()),
          "{} is {} and has {} dimensions", value.name, to_string(placement), value.shape.size());
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

  void check_present(int i, const Instruction& instruction) const {
    for (const int64_t rank : ranks_) {
      if (skips(program_, instruction, rank)) {
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
    check(program_.lies_on(id, rank), "{} needs {} on rank {}, where it has no part ({})",
          describe(i), program_.value(id).name, rank, to_string(program_.value(id).layout));
  }

  void check_group(int i, const Instruction& collective) const {
    const auto axis = static_cast<size_t>(collective.axis);
    check(axis < mesh_.size(), "{} works along no axis of the mesh", describe(i));
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
    check(collective.inner_axes.empty() || is_equal_inside(collective),
          "{} is hierarchical among unequal parts", describe(i));
    all = all || static_cast<int64_t>(concerned.size()) == mesh_[axis].size;
    const std::vector<int64_t> wanted =
        all ? std::vector<int64_t>{} : std::vector<int64_t>(concerned.begin(), concerned.end());
    check(collective.group == wanted, "{} is done by the ranks [{}] of the axis {}, not by [{}]",
          describe(i), fmt::join(collective.group, ", "), mesh_[axis].name,
          fmt::join(wanted, ", "));
  }

  // Whether all ranks of its axes have equal parts of what it changes.
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
                describe(i), program_.value(id).name, to_string(layout), to_string(wanted));
        }
      }
    }
  }

  // The layout but for the collective's axes; a value may be summed in place along another one
  // later.
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
  std::set<std::tuple<size_t, std::string, int64_t, int64_t>> cut_;  // that were looked at
};

}  // namespace

void verify_parts(const Program& program) {
  PartsCheck(program).run();
}

}  // namespace hidup
