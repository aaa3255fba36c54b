#include "search/best_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "graph/batch.h"
#include "search/shares/measure_shares.h"
#include "sharding/with_shares.h"

namespace hidup {
namespace {

// Weights with fewer parts for each rank are improved by as many simulations at most.
constexpr int64_t kFine = 50;
constexpr int kMostMoves = 6;
// The sum of the weights of the state, and of computation where a microbatch has fewer sequences.
constexpr int64_t kParts = 1000;

// Returns weights by class, whose sum over the ranks is about `parts`.
std::vector<int64_t> rounded(const std::vector<double>& shares, int64_t parts) {
  std::vector<int64_t> weights(shares.size());
  std::ranges::transform(shares, weights.begin(), [parts](double share) {
    return std::max<int64_t>(1, std::llround(share * static_cast<double>(parts)));
  });
  return weights;
}

// Weights of a strategy's Shares along an axis, by class.
struct Weights {
  std::vector<int64_t> compute;  // of the features, and of the tokens unless these have equal parts
  std::vector<int64_t> state;
  bool equal_tokens = false;

  bool operator==(const Weights&) const = default;
};

class Unequal {
 public:
  Unequal(const SearchState& state, const Proposal& proposal, size_t axis)
      : state_(state), proposal_(proposal), axis_(axis), classes_(state.classes(axis)) {}

  // Returns the proposal with the best weights found; none where nothing fits in memory.
  std::optional<Proposal> best() const {
    RatioProgram program = measured();
    if (!depends_on_shares(program)) {
      return std::nullopt;
    }
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      const std::optional<Ratios> ratios = solve_ratios(program);
      if (!ratios) {
        return std::nullopt;
      }
      const Weights weights = best_weights(*ratios, program);
      Proposal proposal = with(weights);
      const double over = over_limit(proposal, program, weights);
      if (over <= 1.0) {
        return proposal;
      }
      for (double& limit : program.limits) {
        limit /= kMargin * over;
      }
    }
    return std::nullopt;
  }

  // Returns planned_share().
  std::optional<Share> planned() const {
    const std::optional<Ratios> ratios = solve_ratios(measured());
    if (!ratios) {
      return std::nullopt;
    }
    const int64_t ranks = state_.mesh[axis_].size;
    const int64_t sequences = batch_of(state_.graph) * ranks / ranks_of(state_.mesh);
    const int64_t parts = sequences < 2 * ranks ? kParts : sequences;
    const std::vector<int64_t> weights = rounded(ratios->compute, parts);
    const bool is_equal = std::ranges::count(weights, weights[0]) == std::ssize(weights);
    return reduced(weights_of(classes_, is_equal ? rounded(in_proportion(), parts) : weights));
  }

 private:
  static constexpr double kMargin = 1.01;

  RatioProgram measured() const {
    return measured_shares(proposal_.parts, axis_, classes_, state_.costs, state_.ranks,
                           state_.options.lowering, limits_of_classes());
  }

  // Returns false where equal parts fit and little of the step depends on the parts of ranks:
  // unequal parts gain next to nothing there, and each trial simulates the step.
  bool depends_on_shares(const RatioProgram& program) const {
    constexpr double kLittle = 0.01;  // unequal parts save less than this part of the step
    const std::vector<double> equal(classes_.size(),
                                    1.0 / static_cast<double>(state_.mesh[axis_].size));
    const std::vector<double> none(classes_.size(), 0.0);
    const std::vector<int64_t> alike(classes_.size(), 1);
    const double seconds = seconds_at(program, equal, equal);
    return seconds - seconds_at(program, none, none) > kLittle * seconds ||
           !fits(program, Weights{.compute = alike, .state = alike}, 1.0);
  }

  // Returns the memory of a rank by class; empty without limits.
  std::vector<double> limits_of_classes() const {
    std::vector<double> limits;
    const int64_t all = state_.options.memory_limit;
    for (size_t c = 0; c < classes_.size() && all > 0; ++c) {
      limits.push_back(static_cast<double>(classes_[c].memory > 0 ? classes_[c].memory : all));
    }
    return limits;
  }

  // Returns true where the weights take this part of the program's limits at most.
  bool fits(const RatioProgram& program, const Weights& weights, double part) const {
    const std::vector<double> compute = shares_of(weights.compute);
    const std::vector<double> of_state = shares_of(weights.state);
    for (size_t c = 0; c < program.limits.size(); ++c) {
      if (program.bytes[c].at(compute[c], of_state[c]) > part * program.limits[c]) {
        return false;
      }
    }
    return true;
  }

  // Returns a rank's share by class.
  std::vector<double> shares_of(const std::vector<int64_t>& weights) const {
    double all = 0.0;
    for (size_t c = 0; c < classes_.size(); ++c) {
      all += static_cast<double>(weights[c]) * static_cast<double>(classes_[c].coordinates.size());
    }
    std::vector<double> shares(weights.size());
    std::ranges::transform(weights, shares.begin(),
                           [all](int64_t weight) { return static_cast<double>(weight) / all; });
    return shares;
  }

  // Returns the planned bytes over their limit, of the rank where that is most. Plans nothing where
  // the program leaves much room: 0.
  double over_limit(const Proposal& proposal, const RatioProgram& program,
                    const Weights& weights) const {
    constexpr double kNearlyFull = 0.9;
    if (fits(program, weights, kNearlyFull)) {
      return 0.0;
    }
    const RankLimits& limits = state_.options.memory_of_ranks;
    const RankBytes tightest = tightest_bytes(proposal.parts, state_.options.lowering, limits);
    const int64_t limit =
        limits.empty() ? state_.options.memory_limit : limits[static_cast<size_t>(tightest.rank)];
    return static_cast<double>(tightest.bytes) / static_cast<double>(limit);
  }

  // Returns the ratios as weights that are improved by simulation.
  Weights best_weights(const Ratios& ratios, const RatioProgram& program) const {
    // With equal parts of the state, and below of the tokens, messages along several axes at once
    // stay possible.
    const std::vector<int64_t> equal(classes_.size(), 1);
    std::vector<Weights> tried;
    Weights best;
    double least_s = std::numeric_limits<double>::infinity();
    int64_t parts_of_best = 1;
    for (const int64_t parts : numbers_of_parts()) {
      // The program's messages hide or do not; simulated ones do so in part, and then shares in
      // proportion to the paces may be faster.
      for (const std::vector<double>& compute : {ratios.compute, in_proportion()}) {
        for (const std::vector<int64_t>& of_state : {rounded(ratios.state, kParts), equal}) {
          const Weights weights{.compute = rounded(compute, parts), .state = of_state};
          const bool known = std::ranges::find(tried, weights) != tried.end();
          if (known || (!best.compute.empty() && !fits(program, weights, 1.0))) {
            continue;
          }
          tried.push_back(weights);
          const double seconds = this->seconds(weights);
          if (seconds < least_s) {
            least_s = seconds;
            best = weights;
            parts_of_best = parts;
          }
        }
      }
    }
    if (parts_of_best < kFine * state_.mesh[axis_].size) {
      improve(best, least_s, program);
    }
    for (size_t n = 0; n < 2 && has_both(); ++n) {
      const std::vector<double> compute = n == 0 ? ratios.compute : in_proportion();
      const Weights weights{rounded(compute, kParts), equal, true};
      const double seconds = this->seconds(weights);
      if (seconds < least_s && fits(program, weights, 1.0)) {
        least_s = seconds;
        best = weights;
      }
    }
    return best;
  }

  // Returns true where some rules cut tokens, and others features.
  bool has_both() const {
    bool tokens = false;
    bool features = false;
    const Strategy& strategy = proposal_.parts.parts[0].strategy;
    for (const OpStrategy& op : strategy.ops) {
      const Rule& rule = op.rules[axis_];
      const bool cuts =
          rule.output.is_shard() || std::ranges::any_of(rule.inputs, &Placement::is_shard);
      (cuts_features(rule) ? features : tokens) |= cuts;
    }
    return tokens && features;
  }

  // Returns a rank's share by class, in proportion to the paces.
  std::vector<double> in_proportion() const {
    double all = 0.0;
    for (const PaceClass& each : classes_) {
      all += each.pace * static_cast<double>(each.coordinates.size());
    }
    std::vector<double> shares;
    for (const PaceClass& each : classes_) {
      shares.push_back(each.pace / all);
    }
    return shares;
  }

  // Returns the numbers of parts that the weights of computation may divide: the sequences of a
  // microbatch, and as many sequences at a time as the ranks along the other axes can share.
  std::vector<int64_t> numbers_of_parts() const {
    const Strategy& strategy = proposal_.parts.parts[0].strategy;
    const int64_t passes = int64_t{strategy.microbatches} * strategy.accumulate;
    const int64_t sequences = batch_of(state_.graph) / passes;
    const int64_t ranks = state_.mesh[axis_].size;
    const int64_t others = ranks_of(state_.mesh) / ranks;
    if (sequences < 2 * ranks) {
      return {kParts};
    }
    return others > 1 && sequences >= 2 * ranks * others
               ? std::vector<int64_t>{sequences, sequences / others}
               : std::vector<int64_t>{sequences};
  }

  // Moves single parts of computation between classes while that makes the step faster.
  void improve(Weights& weights, double& least_s, const RatioProgram& program) const {
    int left = kMostMoves;
    for (bool better = true; better && left > 0;) {
      better = false;
      for (size_t pair = 0; pair < classes_.size() * classes_.size() && left > 0; ++pair) {
        Weights moved = weights;
        if (!move(moved.compute, pair / classes_.size(), pair % classes_.size()) ||
            !fits(program, moved, 1.0)) {
          continue;
        }
        --left;
        const double moved_s = seconds(moved);
        if (moved_s < least_s) {
          least_s = moved_s;
          weights = std::move(moved);
          better = true;
        }
      }
    }
  }

  // Takes a part from each rank of a class for the ranks of another. Returns false where these have
  // no part to give.
  bool move(std::vector<int64_t>& weights, size_t from, size_t to) const {
    const auto givers = static_cast<int64_t>(classes_[from].coordinates.size());
    const auto takers = static_cast<int64_t>(classes_[to].coordinates.size());
    const int64_t given = std::max<int64_t>(1, takers / givers);
    if (from == to || weights[from] <= given) {
      return false;
    }
    weights[from] -= given;
    weights[to] += std::max<int64_t>(1, givers / takers);
    return true;
  }

  Proposal with(const Weights& weights) const {
    const auto share_of = [&](const std::vector<int64_t>& by_class) {
      return reduced(weights_of(classes_, by_class));
    };
    const std::vector<int64_t> equal(classes_.size(), 1);
    const Shares shares{.tokens = share_of(weights.equal_tokens ? equal : weights.compute),
                        .features = share_of(weights.compute),
                        .state = share_of(weights.state)};
    return with_change(proposal_, "shares", state_.graph,
                       [=, axis = axis_](const Graph& graph, Strategy& strategy) {
                         strategy = with_shares(graph, std::move(strategy), axis, shares);
                         strategy.name = "search";
                       });
  }

  double seconds(const Weights& weights) const {
    Proposal changed = with(weights);
    return simulated_s(state_, changed);
  }

  const SearchState& state_;
  const Proposal& proposal_;
  const size_t axis_;
  const std::vector<PaceClass> classes_;
};

}  // namespace

double simulated_s(const SearchState& state, Proposal& proposal) {
  const ReshardCosts reshards(proposal.parts.parts[0].strategy.mesh, state.costs);
  return simulated(proposal.parts, reshards, state.ranks, state.options.lowering).iteration_s;
}

std::optional<Proposal> with_best_shares(const SearchState& state, const Proposal& proposal,
                                         size_t axis) {
  return Unequal(state, proposal, axis).best();
}

std::optional<Share> planned_share(const SearchState& state, const Proposal& proposal,
                                   size_t axis) {
  return Unequal(state, proposal, axis).planned();
}

}  // namespace hidup
