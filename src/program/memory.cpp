#include "program/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/check.h"
#include "core/units.h"
#include "program/access.h"

namespace hidup {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
}

class Planner {
 public:
  Planner(const Program& program, int64_t rank)
      : program_(program), accesses_(accesses_of(program)), before_(program) {
    plan_.offsets.assign(program.values.size(), 0);
    for (size_t v = 0; v < program.values.size(); ++v) {
      plan_.sizes.push_back(program.local_bytes(static_cast<ValueId>(v), rank));
    }
  }

  MemoryPlan run() {
    plan_.parameter_bytes = place_role(Value::Role::parameter);
    plan_.gradient_bytes = place_role(Value::Role::gradient);
    plan_.optimizer_bytes = place_role(Value::Role::optimizer_state);
    place_role(Value::Role::input);
    place_role(Value::Role::result);
    place_activations();
    return std::move(plan_);
  }

 private:
  int64_t place_role(Value::Role role) {
    const int64_t start = plan_.bytes;
    for (size_t v = 0; v < program_.values.size(); ++v) {
      if (program_.values[v].role == role) {
        plan_.offsets[v] = plan_.bytes;
        plan_.bytes += aligned(plan_.sizes[v]);
      }
    }
    return plan_.bytes - start;
  }

  // Greedy by size: the largest first, each at the lowest offset where it meets no
  // value that lives at the same time.
  void place_activations() {
    std::vector<size_t> order;
    for (size_t v = 0; v < program_.values.size(); ++v) {
      if (!program_.values[v].persistent() && !accesses_[v].empty()) {
        order.push_back(v);
      }
    }
    std::ranges::stable_sort(order, std::greater<>(), [&](size_t v) { return plan_.sizes[v]; });
    const int64_t start = plan_.bytes;
    std::vector<size_t> placed;  // by offset
    for (const size_t v : order) {
      int64_t offset = start;
      for (const size_t other : placed) {
        if (plan_.offsets[other] >= offset + aligned(plan_.sizes[v])) {
          break;
        }
        if (!ordered(v, other)) {
          offset = std::max(offset, plan_.offsets[other] + aligned(plan_.sizes[other]));
        }
      }
      plan_.offsets[v] = offset;
      plan_.bytes = std::max(plan_.bytes, offset + aligned(plan_.sizes[v]));
      const auto at = std::ranges::upper_bound(placed, offset, std::less<>(),
                                               [&](size_t p) { return plan_.offsets[p]; });
      placed.insert(at, v);
    }
    plan_.activation_bytes = plan_.bytes - start;
  }

  bool ordered(size_t a, size_t b) const { return dies_before(a, b) || dies_before(b, a); }

  // Every use of a happens before the first use of b.
  bool dies_before(size_t a, size_t b) const {
    const int first = accesses_[b].front().instruction;
    return std::ranges::all_of(accesses_[a],
                               [&](const Access& use) { return before_(use.instruction, first); });
  }

  const Program& program_;
  std::vector<std::vector<Access>> accesses_;
  HappensBefore before_;
  MemoryPlan plan_;
};

std::string_view name_of(Value::Role role) {
  switch (role) {
    case Value::Role::input:
      return "input";
    case Value::Role::parameter:
      return "parameter";
    case Value::Role::gradient:
      return "gradient";
    case Value::Role::optimizer_state:
      return "optimizer state";
    case Value::Role::result:
      return "result";
    case Value::Role::activation:
      return "activation";
  }
  fail(ExitCode::internal, "a value of unknown role");
}

}  // namespace

MemoryPlan plan_memory(const Program& program, int64_t rank) {
  return Planner(program, rank).run();
}

std::string describe(const MemoryPlan& plan) {
  return fmt::format("{} per rank: parameters {}, gradients {}, optimizer {}, activations {}",
                     format_bytes(plan.bytes), format_bytes(plan.parameter_bytes),
                     format_bytes(plan.gradient_bytes), format_bytes(plan.optimizer_bytes),
                     format_bytes(plan.activation_bytes));
}

std::string largest_values(const Program& program, const MemoryPlan& plan, size_t count) {
  std::vector<size_t> order(program.values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t v) { return plan.sizes[v]; });
  order.resize(std::min(count, order.size()));
  std::string text;
  for (const size_t v : order) {
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", program.values[v].name,
                        format_bytes(plan.sizes[v]), name_of(program.values[v].role));
  }
  return text;
}

}  // namespace hidup
