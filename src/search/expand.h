// One step of the dynamic programming: every kept plan goes on with every choice of an operation.
#pragma once

#include <cstdint>
#include <vector>

#include "search/front.h"
#include "search/states.h"

namespace hidup {

// The plans that are kept, by state.
struct Front {
  explicit Front(size_t tensors) : states(tensors) {}
  States states;
  std::vector<uint32_t> begin = {0};  // of each state's members; one more than states
  std::vector<Member> members;
};

// Where a member came from.
struct Trace {
  uint32_t parent = 0;
  int32_t choice = 0;
};

// What the dynamic programming may keep, and what it charges.
struct Limits {
  size_t width = 0;       // members of a state; 0: all that are not dominated
  size_t states = 0;      // 0: all
  bool memory = false;    // Problem::memory_limit holds for every plan
  double price = 0.0;     // seconds per byte
  bool certain = false;   // ends where a state would be dropped, and guesses nothing
  bool additive = false;  // nothing overlaps and nothing waits to be hidden: see relax.h
};

class Expander {
 public:
  Expander(const Problem& problem, const Limits& limits);

  Front first() const;
  // The plans of the operations up to this one, from those of the operations before it.
  Front expand(size_t op, const Front& before);

  // Since the last call of forget(): whether a message was not hidden in the pass; whether states
  // were dropped, so that the best plan may be lost for all that the members' bounds say.
  bool exposed_forward() const { return exposed_forward_; }
  bool exposed_backward() const { return exposed_backward_; }
  void forget_exposed() { exposed_forward_ = exposed_backward_ = false; }
  bool dropped_states() const { return dropped_states_; }
  size_t most_states() const { return most_states_; }  // before any were dropped

 private:
  // From a state to a state, by a choice.
  struct Transition {
    uint32_t from = 0, to = 0;
    int32_t choice = 0;
    Addition addition;
  };
  // What becomes of a tensor in one status.
  struct Change {
    StatusId status = 0;
    Addition addition;
    double seconds = 0.0;  // of all of it, of an additive problem
  };
  // Of one tensor that the operation reads: [status, choice]; rows of the statuses that occur.
  struct Changes {
    std::vector<int32_t> row_of;
    std::vector<Change> changes;
  };
  // Where the statuses of the next state come from.
  struct Move {
    size_t slot = 0;  // before, or the place among the tensors that the operation reads
    enum class From { state, read, output } from = From::state;
  };

  // What becomes of all tensors by every choice.
  struct Steps {
    const std::vector<int>& choices;
    std::vector<Move> moves;
    std::vector<Changes> changes;   // per tensor that the operation reads
    std::vector<StatusId> outputs;  // per choice
  };

  const std::vector<int>& usable(size_t op) const {
    return usable_[static_cast<size_t>(problem_.ops[op].kind)];
  }
  void find_usable();
  void find_needs();
  Comparison comparison(size_t op) const;
  Changes changes_of(size_t op, const ReadTensor& tensor, const States& states);
  std::vector<Move> moves_of(size_t op) const;
  Steps steps_of(size_t op, const States& before);
  template <typename Visit>
  void for_steps(size_t op, const Steps& steps, const States& before, States& after,
                 Visit visit) const;
  Front expand_additive(size_t op, const Front& before);
  std::vector<Transition> transitions(size_t op, const States& before, States& after);
  bool go_on(size_t op, const Transition& transition, const Member& before, Member& after);
  void drop_states(Front& front);
  // Of an additive problem: states that another one reaches, at its own cost, for less.
  void drop_convertible(size_t op, Front& front) const;
  static Front with_states(const Front& front, const std::vector<bool>& kept);

  const Problem& problem_;
  const Limits limits_;
  const Turns forward_turns_, backward_turns_;
  const Liveness liveness_;
  Statuses statuses_;
  std::vector<std::vector<int>> usable_;  // per kind: choices that none is better than in all
  struct Needs {
    LaneNeeds forward, backward;
    double bytes = 0.0;  // at least
  };
  std::vector<Needs> needs_;  // per operation: of those behind it
  bool exposed_forward_ = false, exposed_backward_ = false, dropped_states_ = false;
  size_t most_states_ = 0;
};

}  // namespace hidup
