#include "search/problem/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "core/check.h"
#include "search/problem/pass.h"

namespace hidup {
namespace {

// The times of one pass over an operation.
struct PassTimes {
  double comm = 0.0, compute = 0.0;  // per microbatch
  double message = 0.0;              // per step
};

struct OpTimes {
  PassTimes forward, backward;
  double step = 0.0;
  double bytes = 0.0;
  bool communicates() const { return forward.comm > 0.0 || backward.comm > 0.0; }
};

// Returns the largest number of layouts of a tensor's readers.
size_t most_layouts(const Problem& problem) {
  int most = 1;
  for (const TensorCosts& tensor : problem.tensors) {
    most = std::max({most, tensor.forward.read, tensor.backward.read});
  }
  return static_cast<size_t>(most);
}

// Computes each operation's time with the reshards of its inputs, in the order of the graph.
class OpTimeline {
 public:
  OpTimeline(const Problem& problem, const std::vector<int>& choices)
      : problem_(problem),
        choices_(choices),
        words_((most_layouts(problem) + kBits - 1) / kBits),
        done_(2 * problem.ops.size() * words_) {
    check(choices.size() == problem.ops.size(), "{} choices for {} operations", choices.size(),
          problem.ops.size());
  }

  OpTimes next(size_t op) {
    const Choice& choice = chosen(op);
    OpTimes times{.forward = {choice.forward_comm_s, choice.forward_compute_s, choice.gather_s},
                  .backward = {choice.backward_comm_s, choice.backward_compute_s, choice.sync_s},
                  .step = choice.step_s,
                  .bytes = choice.persistent_bytes + choice.saved_bytes};
    const std::vector<int>& inputs = problem_.ops[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto producer = static_cast<size_t>(inputs[i]);
      const int written = chosen(producer).output;
      const TensorCosts& costs = problem_.tensor_of(producer);
      const InputLayouts& input = choice.inputs[i];
      if (first_use(2 * producer, input.required)) {
        add(costs.forward.between(written, input.required), times.forward, times.bytes);
      }
      if (input.gradient >= 0 && first_use(2 * producer + 1, input.gradient)) {
        add(costs.backward.between(written, input.gradient), times.backward, times.bytes);
      }
    }
    return times;
  }

 private:
  const Choice& chosen(size_t op) const {
    return problem_.choices_of(op).choices.at(static_cast<size_t>(choices_[op]));
  }
  // Returns true where a tensor (even number) or its gradient (odd) is first brought to the layout.
  bool first_use(size_t number, int layout) {
    const auto place = static_cast<size_t>(layout);
    uint64_t& done = done_[number * words_ + place / kBits];
    const uint64_t bit = uint64_t{1} << (place % kBits);
    const bool first = (done & bit) == 0;
    done |= bit;
    return first;
  }
  static void add(const Reshard& reshard, PassTimes& pass, double& bytes) {
    pass.comm += reshard.comm_s;
    pass.compute += reshard.compute_s;
    bytes += reshard.bytes;
  }

  const Problem& problem_;
  const std::vector<int>& choices_;
  static constexpr size_t kBits = 64;
  size_t words_;                // with a bit per layout
  std::vector<uint64_t> done_;  // per tensor and gradient: layouts reached so far
};

bool sensible(double number) {
  return std::isfinite(number) && number >= 0.0;
}

void check_reshards(const Reshards& reshards, size_t written) {
  check(reshards.read >= 1 && reshards.read <= kMostLayouts, "{} layouts", reshards.read);
  check(reshards.all.size() == written * static_cast<size_t>(reshards.read),
        "{} reshards from {} layouts to {}", reshards.all.size(), written, reshards.read);
  check(std::ranges::all_of(reshards.all,
                            [](const Reshard& r) {
                              return sensible(r.comm_s) && sensible(r.compute_s) &&
                                     sensible(r.bytes);
                            }),
        "a reshard's cost is no number");
}

bool is_known(int layout, size_t layouts) {
  return layout >= 0 && static_cast<size_t>(layout) < layouts;
}

void check_choice(const Choice& choice, const Problem& problem, const SearchOp& op) {
  const OpChoices& kind = problem.kinds[static_cast<size_t>(op.kind)];
  check(choice.inputs.size() == op.inputs.size() &&
            is_known(choice.output,
                     problem.tensors[static_cast<size_t>(kind.tensor)].forward.written()),
        "a choice that does not fit");
  for (size_t i = 0; i < choice.inputs.size(); ++i) {
    const auto [required, gradient] = choice.inputs[i];
    const TensorCosts& costs = problem.tensor_of(static_cast<size_t>(op.inputs[i]));
    const auto to = static_cast<size_t>(costs.forward.read);
    const auto back = static_cast<size_t>(costs.backward.read);
    check(is_known(required, to) && (gradient == -1 || is_known(gradient, back)),
          "a choice reads in layouts {} and {} of {} and {}", required, gradient, to, back);
  }
  for (const double cost :
       {choice.forward_compute_s, choice.backward_compute_s, choice.forward_comm_s,
        choice.backward_comm_s, choice.gather_s, choice.sync_s, choice.step_s,
        choice.persistent_bytes, choice.saved_bytes}) {
    check(sensible(cost), "a choice costs {}", cost);
  }
}

}  // namespace

Reshard Reshards::costliest_to(int read_in) const {
  Reshard most;
  for (size_t from = 0; read_in >= 0 && from < written(); ++from) {
    const Reshard& reshard = between(static_cast<int>(from), read_in);
    most.comm_s = std::max(most.comm_s, reshard.comm_s);
    most.compute_s = std::max(most.compute_s, reshard.compute_s);
    most.bytes = std::max(most.bytes, reshard.bytes);
  }
  return most;
}

std::vector<size_t> first_alike(const Problem& problem) {
  std::map<std::vector<int>, size_t> known;
  std::vector<size_t> first;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    std::vector<int> read = {problem.ops[op].kind};
    for (const int input : problem.ops[op].inputs) {
      read.push_back(problem.choices_of(static_cast<size_t>(input)).tensor);
    }
    first.push_back(known.try_emplace(std::move(read), op).first->second);
  }
  return first;
}

void check_problem(const Problem& problem) {
  check(problem.microbatches >= 1, "{} microbatches", problem.microbatches);
  check(problem.interference >= 0.0 && problem.interference <= 1.0, "interference {}",
        problem.interference);
  for (const TensorCosts& tensor : problem.tensors) {
    check_reshards(tensor.forward, tensor.forward.written());
    check_reshards(tensor.backward, tensor.forward.written());
  }
  std::vector<bool> checked(problem.kinds.size());
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const auto kind = static_cast<size_t>(problem.ops[op].kind);
    check(kind < problem.kinds.size(), "operation {} is of no kind", op);
    for (const int input : problem.ops[op].inputs) {
      check(input >= 0 && static_cast<size_t>(input) < op, "operation {} reads {}", op, input);
    }
    if (checked[kind]) {
      const Choice& first = problem.kinds[kind].choices.front();
      check(first.inputs.size() == problem.ops[op].inputs.size(), "operation {} does not fit", op);
      continue;
    }
    checked[kind] = true;
    const OpChoices& choices = problem.kinds[kind];
    check(!choices.choices.empty() && choices.tensor >= 0 &&
              static_cast<size_t>(choices.tensor) < problem.tensors.size(),
          "operation {} has no choices or no tensor", op);
    for (const Choice& choice : choices.choices) {
      check_choice(choice, problem, problem.ops[op]);
    }
  }
}

Evaluation evaluate(const Problem& problem, const Plan& plan) {
  check(plan.starts == needed_starts(problem, plan.choices), "a plan with other stages");
  return evaluate(problem, plan.choices);
}

Evaluation evaluate(const Problem& problem, const std::vector<int>& choices) {
  Evaluation total{.seconds = problem.base_s, .bytes = problem.base_bytes};
  OpTimeline timeline(problem, choices);
  Pass forward;
  Pass backward;
  const Turns forward_turns(problem, true);
  const Turns backward_turns(problem, false);
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const OpTimes times = timeline.next(op);
    total.seconds += forward.communicate(times.forward.comm, forward_turns);
    total.seconds += forward.message(times.forward.message, forward_turns);
    total.seconds += forward.compute(times.forward.compute, forward_turns);
    total.seconds += backward.message(times.backward.message, backward_turns);
    total.seconds += backward.communicate(times.backward.comm, backward_turns);
    total.seconds += backward.compute(times.backward.compute, backward_turns);
    total.seconds += times.step;
    total.bytes += times.bytes;
  }
  return total;
}

std::vector<bool> needed_starts(const Problem& problem, const std::vector<int>& choices) {
  std::vector<bool> starts;
  OpTimeline timeline(problem, choices);
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    starts.push_back(timeline.next(op).communicates());
  }
  return starts;
}

}  // namespace hidup
