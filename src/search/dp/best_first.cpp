#include "search/dp/best_first.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/deadline.h"
#include "search/dp/relax.h"
#include "search/problem/pass.h"

namespace hidup {
namespace {

// Weights of computation in a pass whose relaxations bound plans; the largest bound counts.
constexpr std::array kWeights = {0.0, 0.25, 0.5, 0.75, 1.0};

// The choices of the first operations, and the state of both passes after them.
struct Partial {
  std::vector<int> choices;
  Pass forward, backward;
  Evaluation cost;
  double bound_s = 0.0;  // of all plans that begin so

  // A priority queue has the largest first. Of equal bounds, longer plans come first.
  bool operator<(const Partial& other) const {
    return bound_s != other.bound_s ? bound_s > other.bound_s
                                    : choices.size() < other.choices.size();
  }
};

double additive_s(const Reshard& reshard) {
  return reshard.comm_s + reshard.compute_s;
}

// The least cost of the operations after a partial plan in the relaxed problem of some weights.
class Relaxation {
 public:
  Relaxation(const Problem& relaxed, const std::vector<int>& readers)
      : relaxed_(relaxed), readers_(readers), rest_(relaxed.ops.size() + 1) {
    for (size_t op = relaxed.ops.size(); op-- > 0;) {
      find_rest(op);
    }
  }

  double after(const Partial& partial) const {
    const std::vector<int>& choices = partial.choices;
    return choices.empty() ? least_rest_ : rest_of(choices.size(), choices.back());
  }

 private:
  const std::vector<Choice>& choices_of(size_t op) const { return relaxed_.choices_of(op).choices; }
  double rest_of(size_t op, int before) const {
    return op == relaxed_.ops.size() ? 0.0 : rest_[op].at(static_cast<size_t>(before));
  }

  // Returns the cost of input i of the choice, as `written` by its producer. Several readers may
  // share a reshard, which then counts for none.
  double reshard_s(size_t op, const Choice& choice, size_t i, const Choice& written) const {
    const auto producer = static_cast<size_t>(relaxed_.ops[op].inputs[i]);
    if (readers_[producer] > 1) {
      return 0.0;
    }
    const TensorCosts& costs = relaxed_.tensor_of(producer);
    const auto [required, gradient] = choice.inputs[i];
    return additive_s(costs.forward.between(written.output, required)) +
           (gradient < 0 ? 0.0 : additive_s(costs.backward.between(written.output, gradient)));
  }

  // Returns the least cost of the choice after that choice of the operation before.
  double least_s(size_t op, const Choice& choice, const Choice* before) const {
    double seconds = choice.forward_compute_s + choice.backward_compute_s + choice.forward_comm_s +
                     choice.backward_comm_s + choice.step_s;
    for (size_t i = 0; i < choice.inputs.size(); ++i) {
      const auto producer = static_cast<size_t>(relaxed_.ops[op].inputs[i]);
      if (producer + 1 == op && before != nullptr) {
        seconds += reshard_s(op, choice, i, *before);
        continue;
      }
      double least = std::numeric_limits<double>::infinity();
      for (const Choice& written : choices_of(producer)) {
        least = std::min(least, reshard_s(op, choice, i, written));
      }
      seconds += least;
    }
    return seconds;
  }

  double least_after(size_t op, const Choice* before) const {
    double least = std::numeric_limits<double>::infinity();
    for (size_t c = 0; c < choices_of(op).size(); ++c) {
      least = std::min(
          least, least_s(op, choices_of(op)[c], before) + rest_of(op + 1, static_cast<int>(c)));
    }
    return least;
  }

  void find_rest(size_t op) {
    if (op == 0) {
      least_rest_ = least_after(0, nullptr);
      return;
    }
    for (const Choice& before : choices_of(op - 1)) {
      rest_[op].push_back(least_after(op, &before));
    }
  }

  const Problem relaxed_;
  const std::vector<int> readers_;         // number, per operation's output
  std::vector<std::vector<double>> rest_;  // per operation and choice of the one before
  double least_rest_ = 0.0;                // of the whole plan
};

std::vector<int> readers_of(const Problem& problem) {
  std::vector<int> readers(problem.ops.size());
  for (const SearchOp& op : problem.ops) {
    for (const int input : op.inputs) {
      ++readers[static_cast<size_t>(input)];
    }
  }
  return readers;
}

class BestFirst {
 public:
  BestFirst(const Problem& problem, const BestFirstOptions& options)
      : problem_(problem),
        options_(options),
        forward_turns_(problem, true),
        backward_turns_(problem, false) {
    for (const double forward : kWeights) {
      for (const double backward : kWeights) {
        if (options.heuristic) {
          const Weights weights{forward, backward};
          bounds_.push_back({weights, {without_overlap(problem, weights), readers_of(problem)}});
        }
      }
    }
  }

  BestFirstResult run() {
    BestFirstResult result;
    add({.cost = {problem_.base_s, problem_.base_bytes}});
    while (!open_.empty()) {
      TimeLimit::check();
      const Partial best = open_.top();
      open_.pop();
      if (best.choices.size() == problem_.ops.size()) {
        const Plan plan{best.choices, needed_starts(problem_, best.choices)};
        result.plan = FoundPlan{plan, evaluate(problem_, plan), "best first"};
        return result;
      }
      if (++result.expanded + open_.size() > options_.most_partial) {
        fail(ExitCode::usage,
             "the problem of {} operations is too large for a best-first search: {} partial plans "
             "do not reach the end; search.method dp has no such limit",
             problem_.ops.size(), options_.most_partial);
      }
      extend(best);
    }
    return result;
  }

 private:
  struct Bound {
    Weights weights;
    Relaxation relaxation;
  };

  void extend(const Partial& partial) {
    const size_t op = partial.choices.size();
    for (size_t c = 0; c < problem_.choices_of(op).choices.size(); ++c) {
      Partial next = partial;
      next.choices.push_back(static_cast<int>(c));
      take(op, next);
      add(std::move(next));
    }
  }

  const Choice& chosen(size_t op, const Partial& partial) const {
    return problem_.choices_of(op).choices[static_cast<size_t>(partial.choices[op])];
  }

  // Adds the costs of the last operation, as evaluate() does.
  void take(size_t op, Partial& partial) const {
    const Choice& choice = chosen(op, partial);
    Reshard forward{choice.forward_comm_s, choice.forward_compute_s};
    Reshard backward{choice.backward_comm_s, choice.backward_compute_s};
    for (size_t i = 0; i < choice.inputs.size(); ++i) {
      const auto producer = static_cast<size_t>(problem_.ops[op].inputs[i]);
      const int written = chosen(producer, partial).output;
      const TensorCosts& costs = problem_.tensor_of(producer);
      const InputLayouts& input = choice.inputs[i];
      if (is_first(op, i, &InputLayouts::required, partial)) {
        add(costs.forward.between(written, input.required), forward);
      }
      if (input.gradient >= 0 && is_first(op, i, &InputLayouts::gradient, partial)) {
        add(costs.backward.between(written, input.gradient), backward);
      }
    }
    partial.cost.seconds += partial.forward.communicate(forward.comm_s, forward_turns_) +
                            partial.forward.message(choice.gather_s, forward_turns_) +
                            partial.forward.compute(forward.compute_s, forward_turns_) +
                            partial.backward.message(choice.sync_s, backward_turns_) +
                            partial.backward.communicate(backward.comm_s, backward_turns_) +
                            partial.backward.compute(backward.compute_s, backward_turns_) +
                            choice.step_s;
    partial.cost.bytes +=
        choice.persistent_bytes + choice.saved_bytes + forward.bytes + backward.bytes;
  }

  static void add(const Reshard& reshard, Reshard& sum) {
    sum.comm_s += reshard.comm_s;
    sum.compute_s += reshard.compute_s;
    sum.bytes += reshard.bytes;
  }

  // Returns true where no operation, and no input before input i, needs the tensor or its gradient
  // in this layout.
  bool is_first(size_t op, size_t i, int InputLayouts::*layout, const Partial& partial) const {
    const int tensor = problem_.ops[op].inputs[i];
    const int wanted = chosen(op, partial).inputs[i].*layout;
    for (size_t reader = 0; reader <= op; ++reader) {
      const Choice& choice = chosen(reader, partial);
      const size_t end = reader == op ? i : choice.inputs.size();
      for (size_t k = 0; k < end; ++k) {
        if (problem_.ops[reader].inputs[k] == tensor && choice.inputs[k].*layout == wanted) {
          return false;
        }
      }
    }
    return true;
  }

  // Returns the most seconds of the relaxed rest of a pass that its first part hides: communication
  // hides in idle time beside the computation so far, and turns of computation behind the open
  // communication.
  double hidden_s(const Pass& pass, const Turns& turns, double weight) const {
    return (1.0 - turns.interference) *
           (weight * turns.count * pass.open_comm +
            (1.0 - weight) * std::max(0.0, pass.idle() + pass.turns_idle));
  }

  // Neither time nor bytes fall as a plan grows.
  void add(Partial partial) {
    if (partial.cost.bytes > problem_.memory_limit) {
      return;
    }
    partial.bound_s = partial.cost.seconds;
    for (const auto& [weights, relaxation] : bounds_) {
      const double hidden = hidden_s(partial.forward, forward_turns_, weights.forward) +
                            hidden_s(partial.backward, backward_turns_, weights.backward);
      partial.bound_s =
          std::max(partial.bound_s, partial.cost.seconds + relaxation.after(partial) - hidden);
    }
    open_.push(std::move(partial));
  }

  const Problem& problem_;
  const BestFirstOptions options_;
  const Turns forward_turns_, backward_turns_;
  std::vector<Bound> bounds_;
  std::priority_queue<Partial> open_;
};

}  // namespace

BestFirstResult best_first(const Problem& problem, const BestFirstOptions& options) {
  check_problem(problem);
  return BestFirst(problem, options).run();
}

}  // namespace hidup
