#include "search/shares/measure_shares.h"

#include <algorithm>
#include <array>
#include <set>

#include "cost/duration.h"
#include "program/memory.h"
#include "program/work.h"
#include "search/estimate/choose_routes.h"
#include "sharding/with_shares.h"

namespace hidup {
namespace {

constexpr size_t kPhases = 3;  // of Phase

// The seconds of a rank's phases, and its bytes.
struct RankLoad {
  std::array<double, kPhases> compute_s = {};
  std::array<double, kPhases> comm_s = {};
  double bytes = 0.0;
};

RankLoad load_of(const Program& program, const WorkKinds& kinds, const RankCosts& costs,
                 int64_t rank, bool with_bytes) {
  const AlikeInstructions alike = kinds.on(rank);
  std::vector<double> seconds;
  seconds.reserve(alike.first.size());
  for (const int first : alike.first) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(first)];
    seconds.push_back(duration_of(program, costs.of(rank), instruction, rank).alone_s);
  }
  RankLoad load;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    auto& sums = communicates(instruction.stream) ? load.comm_s : load.compute_s;
    sums.at(static_cast<size_t>(instruction.phase)) +=
        seconds[static_cast<size_t>(alike.number[i])] + costs.launch_s();
  }
  load.bytes = with_bytes ? static_cast<double>(plan_memory(program, rank).bytes) : 0.0;
  return load;
}

void take_most(RankLoad& most, const RankLoad& other) {
  for (size_t phase = 0; phase < kPhases; ++phase) {
    most.compute_s[phase] = std::max(most.compute_s[phase], other.compute_s[phase]);
    most.comm_s[phase] = std::max(most.comm_s[phase], other.comm_s[phase]);
  }
  most.bytes = std::max(most.bytes, other.bytes);
}

// Returns ranks at the coordinate: one for each class of costs.
std::vector<int64_t> ranks_at(const Mesh& mesh, size_t axis, int64_t coordinate,
                              const RankCosts& costs) {
  std::set<size_t> known;
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
    if (coordinate_of(mesh, rank, axis) == coordinate &&
        known.insert(costs.class_of(rank)).second) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

class Measured {
 public:
  Measured(const StrategyParts& parts, size_t axis, const std::vector<PaceClass>& classes,
           const CostModel& routes, const RankCosts& costs, const LoweringOptions& lowering,
           bool with_bytes)
      : parts_(parts),
        axis_(axis),
        classes_(classes),
        routes_(routes),
        costs_(costs),
        lowering_(lowering),
        with_bytes_(with_bytes) {}

  // Returns the load of a rank of each class.
  std::vector<RankLoad> with(const Share& compute, const Share& state) const {
    std::vector<RankLoad> loads(classes_.size());
    for (const StrategyParts::Part& part : parts_.parts) {
      Strategy strategy = with_shares(*part.graph, part.strategy, axis_, {compute, compute, state});
      strategy.routes.clear();
      strategy.algorithms.clear();
      const ReshardCosts reshards(strategy.mesh, routes_);
      const Program program = lower_by_costs(*part.graph, strategy, lowering_, reshards);
      const WorkKinds kinds(program);
      for (size_t c = 0; c < classes_.size(); ++c) {
        RankLoad load;
        for (const int64_t rank :
             ranks_at(program.mesh, axis_, classes_[c].coordinates[0], costs_)) {
          take_most(load, load_of(program, kinds, costs_, rank, with_bytes_));
        }
        for (size_t phase = 0; phase < kPhases; ++phase) {
          loads[c].compute_s[phase] += part.weight * load.compute_s[phase];
          loads[c].comm_s[phase] += part.weight * load.comm_s[phase];
        }
        loads[c].bytes += part.weight * load.bytes;
      }
    }
    return loads;
  }

 private:
  const StrategyParts& parts_;
  size_t axis_;
  const std::vector<PaceClass>& classes_;
  const CostModel& routes_;
  const RankCosts& costs_;
  const LoweringOptions& lowering_;
  bool with_bytes_;
};

// A value under equal parts, unequal computation, and unequal state.
struct Three {
  double equal, compute, state;
};

// Returns the plane through the three values. `share`: of equal parts; `trial`: the unequal one.
Affine plane(const Three& values, double share, double trial) {
  Affine plane{.of_compute = (values.compute - values.equal) / (trial - share),
               .of_state = (values.state - values.equal) / (trial - share)};
  plane.fixed = values.equal - (plane.of_compute + plane.of_state) * share;
  return plane;
}

}  // namespace

RatioProgram measured_shares(const StrategyParts& parts, size_t axis,
                             const std::vector<PaceClass>& classes, const CostModel& routes,
                             const RankCosts& costs, const LoweringOptions& lowering,
                             const std::vector<double>& limits) {
  // Every class's weight differs from the mean: four for the faster ones, two for the slower ones.
  constexpr int64_t kMany = 4, kFew = 2;
  RatioProgram program;
  std::vector<int64_t> trial;
  double ranks = 0.0;
  double all = 0.0;
  for (size_t c = 0; c < classes.size(); ++c) {
    trial.push_back(2 * c < classes.size() ? kMany : kFew);
    program.ranks.push_back(static_cast<double>(classes[c].coordinates.size()));
    ranks += program.ranks[c];
    all += program.ranks[c] * static_cast<double>(trial[c]);
  }
  const Share unequal = weights_of(classes, trial);
  const Share equal(unequal.size(), 1);
  const Measured measured(parts, axis, classes, routes, costs, lowering, !limits.empty());
  const std::vector<RankLoad> of_equal = measured.with(equal, equal);
  const std::vector<RankLoad> of_compute = measured.with(unequal, equal);
  const std::vector<RankLoad> of_state = measured.with(equal, unequal);

  const auto fit = [&](size_t c, auto value) {
    return plane({value(of_equal[c]), value(of_compute[c]), value(of_state[c])}, 1.0 / ranks,
                 static_cast<double>(trial[c]) / all);
  };
  for (size_t phase = 0; phase < kPhases; ++phase) {
    RatioPhase& each = program.phases.emplace_back();
    each.overlaps = static_cast<Phase>(phase) != Phase::update;
    for (size_t c = 0; c < classes.size(); ++c) {
      each.compute_s.push_back(
          fit(c, [&](const RankLoad& load) { return load.compute_s.at(phase); }));
    }
    // The first class has the largest share of the trial.
    each.comm_s = fit(0, [&](const RankLoad& load) { return load.comm_s.at(phase); });
  }
  for (size_t c = 0; c < limits.size(); ++c) {
    program.bytes.push_back(fit(c, [](const RankLoad& load) { return load.bytes; }));
  }
  program.limits = limits;
  return program;
}

}  // namespace hidup
