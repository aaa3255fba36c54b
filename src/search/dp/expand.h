// Extends every partial plan with every choice of an operation.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/deadline.h"
#include "search/dp/front.h"
#include "search/dp/states.h"

namespace hidup {

// The partial plans by state.
struct Front {
  explicit Front(size_t tensors) : states(tensors) {}
  States states;
  std::vector<uint32_t> begin = {0};  // where the plans of each state begin; the last is the end
  std::vector<PartialPlan> plans;
};

// The origin of a partial plan, to reconstruct the whole plan.
struct BackPointer {
  uint32_t parent = 0;
  int32_t choice = 0;
};

// The limits and the objective of a sweep.
struct SweepOptions {
  size_t width = 0;     // plans per state (beam width); 0: all undominated ones
  size_t states = 0;    // 0: all
  bool memory = false;  // true: every plan must meet Problem::memory_limit
  // The price of a byte in seconds: the Lagrange multiplier of the memory limit.
  double memory_multiplier = 0.0;
  bool certified =
      false;  // stop where the lower bound would be lost: drop no states, guess no blocks
  bool additive = false;    // costs add up without overlap (relax.h)
  bool bound_only = false;  // prune_for_bound(): results are bounds, no plans
  // The sweep stops after this work (Expander::work()), or at the deadline.
  size_t work = std::numeric_limits<size_t>::max();
  Deadline deadline = {};
};

class Expander {
 public:
  Expander(const Problem& problem, const SweepOptions& options);

  Front first() const;
  // Extends the partial plans before the operation to those that include it.
  Front expand(size_t op, const Front& before);

  // Return true where a message was exposed in the pass since the last call of forget_exposed().
  bool exposed_forward() const { return exposed_forward_; }
  bool exposed_backward() const { return exposed_backward_; }
  void forget_exposed() { exposed_forward_ = exposed_backward_ = false; }
  // Returns true where states were dropped, so that the regrets of plans bound nothing.
  bool dropped_states() const { return dropped_states_; }
  // Returns true where SweepOptions::width may have excluded plans.
  bool narrowed() const { return narrowed_; }
  // Returns the number of partial plans made plus the pairs of them compared.
  size_t work() const { return work_; }

 private:
  // Every plan with every choice, by next state. Operations share its memory.
  struct Continuations {
    std::vector<uint32_t> begin, end;  // per state, in `plans`
    std::vector<double> fastest_s;     // per state; infinite without plans
    std::vector<PartialPlan> plans;

    void make_room(const std::vector<uint32_t>& counts);
  };
  // The effect of a read on a tensor of one status.
  struct Change {
    StatusId status = 0;
    Addition addition;
    double seconds = 0.0;  // of the whole addition, in additive problems
  };
  // The changes of one tensor read: a row per occurring status, with a change per choice.
  struct Changes {
    std::vector<int32_t> row_of;
    std::vector<Change> changes;
  };
  using Rows = std::vector<const Change*>;  // one status each, per tensor that is read
  // The source of a status of the next state.
  struct Move {
    size_t slot =
        0;  // in the state before, or the index among the tensors that the operation reads
    enum class From { state, read, output } from = From::state;
  };

  // The effects of every choice on all tensors.
  struct Steps {
    const std::vector<int>& choices;
    std::vector<Move> moves;
    std::vector<Changes> changes;   // per tensor that the operation reads
    std::vector<StatusId> outputs;  // per choice
  };

  const std::vector<int>& usable(size_t op) const {
    return usable_[static_cast<size_t>(problem_.ops[op].kind)];
  }
  // Bounds for the remaining operations.
  struct Remaining {
    RemainingWork forward, backward;
    double bytes = 0.0;  // lower bound
  };
  void find_usable();
  void find_remaining();
  Remaining remaining_of(size_t op) const;  // only of `op`
  Comparison comparison(size_t op) const;
  Changes changes_of(size_t op, const ReadTensor& tensor, const States& states);
  std::vector<Move> moves_of(size_t op) const;
  Steps steps_of(size_t op, const States& before);
  void find_rows(size_t op, const Steps& steps, const StatusId* statuses, Rows& rows) const;
  template <typename Visit>
  void for_steps(size_t op, const Steps& steps, const States& before, States& after,
                 Visit visit) const;
  Front expand_additive(size_t op, const Front& before);
  bool continue_with(size_t op, int32_t number, const Addition& reshards, PartialPlan& plan);
  void find_continuations(size_t op, const Front& before, States& after);
  // Returns the states that SweepOptions::states allows, given the seconds of their fastest plans.
  std::vector<bool> fastest_states(const std::vector<double>& fastest_s) const;
  // For additive problems: drops states that cost more than another state with all conversions.
  void drop_convertible(size_t op, Front& front) const;
  static States with_states(const States& states, const std::vector<bool>& kept);

  const Problem& problem_;
  const SweepOptions options_;
  const Turns forward_turns_, backward_turns_;
  const Liveness liveness_;
  Statuses statuses_;
  std::vector<std::vector<int>> usable_;  // per kind: undominated choices
  std::vector<Remaining> remaining_;      // per operation, with all later ones
  Continuations continuations_;
  bool exposed_forward_ = false, exposed_backward_ = false;
  bool dropped_states_ = false, narrowed_ = false;
  size_t work_ = 0;
};

}  // namespace hidup
