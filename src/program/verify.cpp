#include "program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/check.h"
#include "program/access.h"
#include "program/message_parts.h"
#include "program/print.h"
#include "program/verify_memory.h"
#include "program/verify_operands.h"
#include "program/verify_parts.h"
#include "program/verify_recompute.h"
#include "sharding/reshard.h"

namespace hidup {
namespace {

class Verifier {
 public:
  Verifier(const Program& program, const MemoryPlan& plan)
      : program_(program),
        plan_(plan),
        all_accesses_(program),
        steps_(program, plan.rank),
        accesses_(program, steps_),
        before_(program, steps_) {}

  void run() const {
    check_waits();
    for (size_t v = 0; v < program_.values.size(); ++v) {
      check_defined(v);
      check_inside(v);
    }
    check_after_uses();
    verify_memory(program_, plan_, accesses_, before_);
    verify_recompute(program_);
    check_instructions();
  }

 private:
  const Instruction& instruction(int i) const {
    return program_.instructions[static_cast<size_t>(i)];
  }
  auto describe(int i) const { return lazily_described(program_, i); }

  void check_waits() const {
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      for (const int wait : instruction(i).waits) {
        check(wait >= 0 && wait < i, "{} waits for {}, which is not before it", describe(i), wait);
        check(instruction(wait).stream != instruction(i).stream,
              "{} waits for {} of its own stream", describe(i), describe(wait));
      }
    }
  }

  void check_after_uses() const {
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      for (const ValueId value : instruction(i).after_uses_of) {
        if (!steps_.runs(static_cast<size_t>(i))) {
          continue;
        }
        for (const Access& access : accesses_[static_cast<size_t>(value)]) {
          check(access.instruction >= i || before_(access.instruction, i),
                "{} comes after uses of {}, and nothing orders {} before it", describe(i),
                program_.value(value).name, describe(access.instruction));
        }
      }
    }
  }

  void check_defined(size_t v) const {
    const Value& value = program_.values[v];
    const bool kept = value.role == Value::Role::parameter ||
                      value.role == Value::Role::optimizer_state ||
                      value.role == Value::Role::input;
    const bool is_here =
        !value.holds.empty() || program_.lies_on(static_cast<ValueId>(v), plan_.rank);
    if (!kept && is_here && !accesses_[v].empty()) {
      const Access& first = accesses_[v].front();
      if (!first.writes || first.reads) {
        fail(ExitCode::internal, "{} reads {} before anything writes it",
             describe(first.instruction), value.name);
      }
    }
  }

  void check_inside(size_t v) const {
    check(plan_.offsets[v] >= 0 && plan_.offsets[v] + plan_.sizes[v] <= plan_.bytes,
          "{} lies outside the arena", program_.values[v].name);
  }

  void check_instructions() const {
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      verify_operands(program_, instruction(i));
      const bool collective = !collective_of(instruction(i).opcode).empty();
      if (collective != communicates(instruction(i).stream)) {
        fail(ExitCode::internal, "{} is on the wrong stream", describe(i));
      }
      if (is_reshard(instruction(i).opcode)) {
        check_layouts(i);
      }
      if (spec_of(instruction(i).opcode).one_piece) {
        check_one_piece(i);
      }
    }
  }

  void check_one_piece(int i) const {
    for (size_t k = 1; k < instruction(i).inputs.size(); ++k) {
      const auto last = static_cast<size_t>(instruction(i).inputs[k - 1]);
      const auto next = static_cast<size_t>(instruction(i).inputs[k]);
      const int64_t gap = plan_.offsets[next] - (plan_.offsets[last] + plan_.sizes[last]);
      check(gap >= 0 && gap < kValueAlignment, "{}: {} does not lie behind {}", describe(i),
            program_.values[next].name, program_.values[last].name);
    }
  }

  // Checks that the instruction changes placements on its axis as its opcode says.
  void check_layouts(int i) const {
    const Instruction& reshard = instruction(i);
    check(reshard.outputs.size() >= reshard.inputs.size(), "{} has too few outputs", describe(i));
    const bool copies = reshard.opcode == Opcode::slice && reshard.axis < 0;
    const auto axis = static_cast<size_t>(reshard.axis);
    check(copies || axis < program_.mesh.size(), "{} works along no axis of the mesh", describe(i));
    int outer = reshard.axis;
    for (const int inner : reshard.inner_axes) {
      check(inner > outer && inner < static_cast<int>(program_.mesh.size()) &&
                can_be_joint(*spec_of(reshard.opcode).reshard),
            "{} cannot go along the axis {} inside of {}", describe(i), inner, outer);
      outer = inner;
    }
    check(!reshard.flat || !reshard.inner_axes.empty(), "{} cannot be flat", describe(i));
    check_algorithms(i);
    for (size_t k = 0; k < reshard.inputs.size(); ++k) {
      const Value& from = program_.value(reshard.inputs[k]);
      const Value& to = program_.value(reshard.outputs[k]);
      check(from.shape == to.shape, "{} changes the shape of {}", describe(i), from.name);
      if (reshard.inputs[k] == reshard.outputs[k]) {
        continue;  // a sum in place
      }
      if (copies) {
        check(from.layout == to.layout, "{} copies {} from {} to {}", describe(i), from.name,
              lazy_text(from.layout), lazy_text(to.layout));
        continue;
      }
      const auto fits_on = [&](size_t on) {  // verify_parts() proves the data of a joint exchange
        return is_joint_exchange(reshard) ? from.layout[on].is_shard() && to.layout[on].is_shard()
                                          : changes_by(reshard, on, k);
      };
      bool fits = fits_on(axis);
      for (const int inner : reshard.inner_axes) {
        fits = fits && fits_on(static_cast<size_t>(inner));
      }
      check(fits, "{} takes {} from {} to {}", describe(i), from.name, lazy_text(from.layout),
            lazy_text(to.layout));
    }
  }

  // Checks that the instruction has no algorithms, or a known one for each part of a collective.
  void check_algorithms(int i) const {
    const Instruction& reshard = instruction(i);
    if (reshard.algorithms.empty()) {
      return;
    }
    Instruction plain = reshard;
    plain.algorithms.clear();
    const std::vector<MessagePart> parts = message_parts(program_.mesh, plain, 0.0);
    bool fits = !collective_of(reshard.opcode).empty() && parts.size() == reshard.algorithms.size();
    for (size_t p = 0; fits && p < parts.size(); ++p) {
      const auto known = algorithms_of(*spec_of(parts[p].opcode).reshard);
      fits = std::ranges::count(known, reshard.algorithms[p]) > 0;
    }
    check(fits, "{} cannot be done by its algorithms", describe(i));
  }

  // Returns true where the reshard changes its k-th value on the axis as its opcode says.
  bool changes_by(const Instruction& reshard, size_t axis, size_t k) const {
    for (const Placement& before : placements(reshard.inputs[k], axis)) {
      for (const Placement& after : placements(reshard.outputs[k], axis)) {
        const std::vector<ReshardStep> steps =
            reshard_steps({before}, {after}, {program_.mesh[axis]});
        if (steps.size() == 1 && name_of(steps[0].kind) == name_of(reshard.opcode)) {
          return true;
        }
      }
    }
    return false;
  }

  // Returns a value's placements on an axis. A value summed in place was a summand before.
  std::vector<Placement> placements(ValueId id, size_t axis) const {
    const Placement placement = program_.value(id).layout[axis];
    const bool summed =
        std::ranges::any_of(all_accesses_[static_cast<size_t>(id)], [&](const Access& access) {
          const Instruction& user = instruction(access.instruction);
          return user.opcode == Opcode::all_reduce && access.reads && access.writes &&
                 works_along(user, axis);
        });
    return summed && placement.is_replicate()
               ? std::vector<Placement>{placement, Placement::partial(placement.share)}
               : std::vector<Placement>{placement};
  }

  const Program& program_;
  const MemoryPlan& plan_;
  Accesses all_accesses_;  // of all ranks
  RankSteps steps_;        // of the plan's rank, as all below
  Accesses accesses_;
  HappensBefore before_;
};

}  // namespace

void verify(const Program& program, const MemoryPlan& plan) {
  verify_parts(program);  // what follows rests on the ranks' parts
  Verifier(program, plan).run();
}

void verify_ranks_agree(std::span<const std::string> collectives) {
  for (size_t rank = 1; rank < collectives.size(); ++rank) {
    if (collectives[rank] == collectives[0]) {
      continue;
    }
    std::istringstream first(collectives[0]);
    std::istringstream other(collectives[rank]);
    std::string expected;
    std::string found;
    size_t at = 0;
    do {
      expected.assign("nothing");
      found.assign("nothing");
      std::getline(first, expected);
      std::getline(other, found);
      ++at;
    } while (expected == found);
    fail(ExitCode::internal, "collective {} of rank 0 is {}, of rank {} {}", at, expected, rank,
         found);
  }
}

}  // namespace hidup
