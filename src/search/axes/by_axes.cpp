#include "search/axes/by_axes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "search/dp/additive.h"
#include "search/problem/op_strategies.h"

namespace hidup {
namespace {

// The most searches per axis. On two axes, 1 makes steps up to 0.6 % slower; 2 and 6 change
// nothing.
constexpr int kMostRounds = 3;
// The most divisions of an operation that the lower bound compares, each at the cost of its times.
// A mesh of a few axes has some dozens.
constexpr size_t kMostDivisions = 4096;
// An axis improves if the time falls by this part. 1e-2 and 1e-5 find the same.
constexpr double kBetter = 1e-3;

class AxesSearch {
 public:
  AxesSearch(const Graph& graph, const Mesh& mesh, const CostModel& costs,
             const BuildOptions& build, const DynamicOptions& effort)
      : graph_(graph), mesh_(mesh), costs_(costs), build_(build), effort_(effort) {
    effort_.bounds = 0;                             // a bound for one axis is none for the mesh
    build_.storages = StorageChoices::on_all_axes;  // later searches try the others
    if (build.hints != nullptr) {
      hints_ = *build.hints;
    }
    hints_.resize_ops(graph.ops().size(), mesh.size());
  }

  AxesResult run() {
    build_.same_rules = true;
    const FoundStrategy alike = best_of(build_problem(graph_, mesh_, costs_, build_with(hints_)));
    build_.same_rules = false;
    keep(alike);
    in_time([&] {
      keep(descend(alike));
      keep(descend({replicated(), kNever}));
    });
    std::ranges::stable_sort(result_.found, {}, &FoundStrategy::objective_s);
    result_.least_s = least_computation();
    result_.lower_bound =
        std::accumulate(result_.least_s.begin(), result_.least_s.end(), costs_.overhead_s());
    return std::move(result_);
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Improves the strategy by axes, innermost (the fastest links) first, until none improves.
  FoundStrategy descend(FoundStrategy best) {
    FoundStrategy now = best;
    size_t idle = 0;  // consecutive axes without improvement
    const auto goes_on = [&] {
      return idle < axes_in_use(mesh_) && !effort_.deadline.has_passed();
    };
    for (int round = 0; round < kMostRounds && goes_on(); ++round) {
      for (size_t axis = mesh_.size(); axis-- > 0 && goes_on();) {
        if (mesh_[axis].size == 1) {
          continue;
        }
        const auto built =
            try_build_problem(graph_, mesh_, costs_, build_with(all_but(axis, now.strategy)));
        if (!built) {  // the other axes' rules lead to too many layouts
          ++idle;
          continue;
        }
        now = best_of(*built);
        const bool gained = now.objective_s < best.objective_s * (1.0 - kBetter);
        // Another search of this axis gains nothing until another axis changes.
        idle = gained ? 1 : idle + 1;
        if (now.objective_s < best.objective_s) {
          best = now;
        }
      }
    }
    return best.objective_s < kNever ? best : now;
  }

  // Returns the strategy's rules on the other axes, and the given hints on this one.
  Hints all_but(size_t free, const Strategy& strategy) const {
    Hints hints = hints_;
    for (size_t op = 0; op < strategy.ops.size(); ++op) {
      for (size_t axis = 0; axis < mesh_.size(); ++axis) {
        if (axis != free) {
          hints.ops[op].rules[axis] = strategy.ops[op].rules[axis];
        }
      }
    }
    return hints;
  }

  BuildOptions build_with(const Hints& hints) const {
    BuildOptions build = build_;
    build.hints = &hints;
    return build;
  }

  // Returns the best strategy. If none fits in memory, it returns the smallest one, which another
  // axis may make fit.
  FoundStrategy best_of(const BuiltProblem& built) {
    if (kinds_.empty()) {
      for (const SearchOp& op : built.problem.ops) {
        kinds_.push_back(op.kind);
      }
    }
    const DynamicResult solved = solve(built.problem, effort_);
    if (solved.plans.empty()) {
      return {to_strategy(graph_, mesh_, built, least_memory_plan(built.problem)), kNever};
    }
    return {to_strategy(graph_, mesh_, built, solved.plans[0].plan), solved.plans[0].cost.seconds,
            "by axes"};
  }

  void keep(FoundStrategy found) {
    const bool known = std::ranges::any_of(result_.found, [&](const FoundStrategy& other) {
      return other.strategy.ops == found.strategy.ops &&
             other.strategy.parameters == found.strategy.parameters;
    });
    if (!known && found.objective_s < kNever) {
      result_.found.push_back(std::move(found));
    }
  }

  // Returns the strategy in which every rank computes everything, except where hints ask otherwise.
  Strategy replicated() const {
    Strategy strategy{.mesh = mesh_};
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops().size()); ++op) {
      const Rule replicate = replicate_rule(graph_, op);
      OpStrategy op_strategy;
      for (const std::optional<Rule>& hint : hints_.of_operation(op)->rules) {
        op_strategy.rules.push_back(hint.value_or(replicate));
      }
      strategy.ops.push_back(std::move(op_strategy));
    }
    return strategy;
  }

  // Returns 0 for an operation with too many divisions.
  std::vector<double> least_computation() const {
    const int parts = build_.microbatches * build_.accumulate;
    const RuleCosts rules(graph_, mesh_, costs_, parts, build_.bucket_bytes, build_.gradients_as,
                          build_.reshards);
    std::map<int, double> least;  // per kind
    std::vector<double> seconds;
    for (size_t op = 0; op < kinds_.size(); ++op) {
      const auto [at, is_new] = least.try_emplace(kinds_[op], kNever);
      if (is_new) {
        const auto id = static_cast<OpId>(op);
        for (const OpStrategy& op_strategy :
             divisions_of(graph_, id, mesh_, hints_.of_operation(id), kMostDivisions)) {
          const Choice choice = rules.operation(id, op_strategy);
          at->second = std::min(at->second, choice.forward_compute_s + choice.backward_compute_s);
        }
        at->second = at->second == kNever ? 0.0 : at->second;
      }
      seconds.push_back(parts * at->second);
    }
    return seconds;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  BuildOptions build_;
  DynamicOptions effort_;
  Hints hints_;             // as given
  std::vector<int> kinds_;  // per operation; operations of a kind have equal hints
  AxesResult result_;
};

}  // namespace

AxesResult search_by_axes(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                          const BuildOptions& build, const DynamicOptions& effort) {
  return AxesSearch(graph, mesh, costs, build, effort).run();
}

}  // namespace hidup
