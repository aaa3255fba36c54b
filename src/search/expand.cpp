#include "search/expand.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace hidup {
namespace {

// Whether a is as good as b in every respect.
bool covers(const Choice& a, const Choice& b, const Limits& limits) {
  const auto same = [](const Reading& x, const Reading& y) {
    return x.wants == y.wants && x.gives == y.gives;
  };
  if (a.output != b.output || !std::ranges::equal(a.inputs, b.inputs, same)) {
    return false;
  }
  const auto costs = [&limits](const Choice& choice) {
    const double bytes = choice.persistent_bytes + choice.saved_bytes;
    return std::array{choice.forward_compute_s,
                      choice.backward_compute_s,
                      choice.forward_comm_s,
                      choice.backward_comm_s,
                      choice.gather_s,
                      choice.sync_s,
                      choice.step_s + limits.price * bytes,
                      limits.memory ? bytes : 0.0};
  };
  const auto of_a = costs(a);
  const auto of_b = costs(b);
  return std::ranges::equal(of_a, of_b, std::less_equal{});
}

// The most that a reshard to this layout can cost.
Reshard dearest(const Problem& problem, const std::vector<Reshard>& reshards, int to) {
  Reshard most;
  for (int from = 0; to >= 0 && from < problem.layouts; ++from) {
    const Reshard& reshard = reshards[problem.entry(from, to)];
    most.comm_s = std::max(most.comm_s, reshard.comm_s);
    most.compute_s = std::max(most.compute_s, reshard.compute_s);
  }
  return most;
}

void at_least(LaneNeeds& needs, const LaneNeeds& other) {
  needs.largest_comm = std::max(needs.largest_comm, other.largest_comm);
  needs.compute = std::max(needs.compute, other.compute);
  needs.messages = std::max(needs.messages, other.messages);
}

void add_behind(LaneNeeds& needs, const LaneNeeds& op) {
  needs.largest_comm = std::max(needs.largest_comm, op.largest_comm);
  needs.compute += op.compute;
  needs.messages += op.messages;
}

void add(Addition& sum, const Addition& other) {
  sum.forward_comm += other.forward_comm;
  sum.forward_compute += other.forward_compute;
  sum.backward_comm += other.backward_comm;
  sum.backward_compute += other.backward_compute;
  sum.bytes += other.bytes;
}

}  // namespace

Expander::Expander(const Problem& problem, const Limits& limits)
    : problem_(problem),
      limits_(limits),
      forward_turns_(problem, true),
      backward_turns_(problem, false),
      liveness_(liveness_of(problem)) {
  find_usable();
  find_needs();
}

void Expander::find_usable() {
  for (const OpChoices& kind : problem_.kinds) {
    std::vector<int> usable;
    for (size_t c = 0; c < kind.choices.size(); ++c) {
      const bool covered = std::ranges::any_of(usable, [&](int other) {
        return covers(kind.choices[static_cast<size_t>(other)], kind.choices[c], limits_);
      });
      if (covered) {
        continue;
      }
      std::erase_if(usable, [&](int other) {
        return covers(kind.choices[c], kind.choices[static_cast<size_t>(other)], limits_);
      });
      usable.push_back(static_cast<int>(c));
    }
    usable_.push_back(std::move(usable));
  }
}

void Expander::find_needs() {
  needs_.resize(problem_.ops.size() + 1);
  for (size_t op = problem_.ops.size(); op-- > 0;) {
    Needs most;
    most.bytes = std::numeric_limits<double>::infinity();
    for (const int c : usable(op)) {
      const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(c)];
      LaneNeeds forward{choice.forward_comm_s, choice.forward_compute_s, choice.gather_s};
      LaneNeeds backward{choice.backward_comm_s, choice.backward_compute_s, choice.sync_s};
      for (size_t i = 0; i < choice.inputs.size(); ++i) {
        const auto producer = static_cast<size_t>(problem_.ops[op].inputs[i]);
        const TensorCosts& costs = problem_.tensor_of(producer);
        const Reshard there = dearest(problem_, costs.forward, choice.inputs[i].wants);
        const Reshard back = dearest(problem_, costs.backward, choice.inputs[i].gives);
        forward.largest_comm += there.comm_s;
        forward.compute += there.compute_s;
        backward.largest_comm += back.comm_s;
        backward.compute += back.compute_s;
      }
      at_least(most.forward, forward);
      at_least(most.backward, backward);
      most.bytes = std::min(most.bytes, choice.persistent_bytes + choice.saved_bytes);
    }
    needs_[op] = needs_[op + 1];
    add_behind(needs_[op].forward, most.forward);
    add_behind(needs_[op].backward, most.backward);
    needs_[op].bytes += most.bytes;
  }
}

Comparison Expander::comparison(size_t op) const {
  return {.forward_turns = forward_turns_,
          .backward_turns = backward_turns_,
          .forward = needs_[op + 1].forward,
          .backward = needs_[op + 1].backward,
          .bytes = limits_.memory};
}

Front Expander::first() const {
  Front front(0);
  front.states.find_or_add(nullptr);
  front.members.push_back({.seconds = problem_.base_s + limits_.price * problem_.base_bytes,
                           .bytes = problem_.base_bytes});
  front.begin.push_back(1);
  return front;
}

Expander::Changes Expander::changes_of(size_t op, const ReadTensor& tensor, const States& states) {
  constexpr int32_t kNoRow = -1;
  Changes changes{.row_of = std::vector<int32_t>(statuses_.size(), kNoRow)};
  int32_t rows = 0;
  for (size_t state = 0; state < states.size(); ++state) {
    const StatusId status = states.key(state)[tensor.slot];
    if (changes.row_of[status] != kNoRow) {
      continue;
    }
    changes.row_of[status] = rows++;
    for (const int c : usable(op)) {
      Change change;
      const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(c)];
      const TensorStatus next =
          read_tensor(problem_, tensor, choice, statuses_[status], change.addition);
      change.status = tensor.last ? StatusId{0} : statuses_.id_of(next);
      changes.changes.push_back(change);
    }
  }
  return changes;
}

std::vector<Expander::Move> Expander::moves_of(size_t op) const {
  std::vector<Move> moves;
  for (const size_t producer : liveness_.live[op + 1]) {
    const std::vector<ReadTensor>& read = liveness_.read[op];
    const auto of_read = std::ranges::find(read, producer, &ReadTensor::producer);
    if (producer == op) {
      moves.push_back({0, Move::From::output});
    } else if (of_read != read.end()) {
      moves.push_back({static_cast<size_t>(of_read - read.begin()), Move::From::read});
    } else {
      const auto at = std::ranges::find(liveness_.live[op], producer);
      moves.push_back({static_cast<size_t>(at - liveness_.live[op].begin()), Move::From::state});
    }
  }
  return moves;
}

Expander::Steps Expander::steps_of(size_t op, const States& before) {
  Steps steps{.choices = usable(op), .moves = moves_of(op)};
  for (const ReadTensor& tensor : liveness_.read[op]) {
    steps.changes.push_back(changes_of(op, tensor, before));
  }
  for (const int c : steps.choices) {
    steps.outputs.push_back(statuses_.id_of(
        {.layout = problem_.choices_of(op).choices[static_cast<size_t>(c)].output}));
  }
  return steps;
}

// Calls visit(state, place of the choice, the changes of what is read, the next state).
template <typename Visit>
void Expander::for_steps(size_t op, const Steps& steps, const States& before, States& after,
                         Visit visit) const {
  const std::vector<ReadTensor>& read = liveness_.read[op];
  const size_t count = steps.choices.size();
  std::vector<const Change*> rows(read.size());
  std::vector<StatusId> key(steps.moves.size());
  for (size_t state = 0; state < before.size(); ++state) {
    const StatusId* statuses = before.key(state);
    for (size_t r = 0; r < read.size(); ++r) {
      const Changes& changes = steps.changes[r];
      const int32_t row = changes.row_of[statuses[read[r].slot]];
      rows[r] = changes.changes.data() + static_cast<size_t>(row) * count;
    }
    for (size_t c = 0; c < count; ++c) {
      for (size_t m = 0; m < steps.moves.size(); ++m) {
        const Move& move = steps.moves[m];
        key[m] = move.from == Move::From::state  ? statuses[move.slot]
                 : move.from == Move::From::read ? rows[move.slot][c].status
                                                 : steps.outputs[c];
      }
      visit(state, c, rows, after.find_or_add(key.data()));
    }
  }
}

std::vector<Expander::Transition> Expander::transitions(size_t op, const States& before,
                                                        States& after) {
  const Steps steps = steps_of(op, before);
  std::vector<Transition> transitions;
  transitions.reserve(before.size() * steps.choices.size());
  for_steps(op, steps, before, after,
            [&](size_t state, size_t c, const std::vector<const Change*>& rows, uint32_t to) {
              Transition transition{
                  .from = static_cast<uint32_t>(state), .to = to, .choice = steps.choices[c]};
              for (const Change* row : rows) {
                add(transition.addition, row[c].addition);
              }
              transitions.push_back(transition);
            });
  return transitions;
}

// Where costs just add up a state needs only its fastest plan.
Front Expander::expand_additive(size_t op, const Front& before) {
  Steps steps = steps_of(op, before.states);
  const auto seconds_of = [this](const Addition& a) {
    return a.forward_comm + a.forward_compute + a.backward_comm + a.backward_compute +
           limits_.price * a.bytes;
  };
  std::vector<double> own;
  for (const int c : steps.choices) {
    const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(c)];
    own.push_back(choice.forward_comm_s + choice.forward_compute_s + choice.backward_comm_s +
                  choice.backward_compute_s + choice.gather_s + choice.sync_s + choice.step_s +
                  limits_.price * (choice.persistent_bytes + choice.saved_bytes));
  }
  for (Changes& changes : steps.changes) {
    for (Change& change : changes.changes) {
      change.seconds = seconds_of(change.addition);
    }
  }
  Front front(liveness_.live[op + 1].size());
  for_steps(op, steps, before.states, front.states,
            [&](size_t state, size_t c, const std::vector<const Change*>& rows, uint32_t to) {
              double seconds = before.members[state].seconds + own[c];
              for (const Change* row : rows) {
                seconds += row[c].seconds;
              }
              if (to == front.members.size()) {
                front.members.emplace_back();
              } else if (front.members[to].seconds <= seconds) {
                return;
              }
              front.members[to] = {.seconds = seconds,
                                   .parent = static_cast<uint32_t>(state),
                                   .choice = steps.choices[c]};
            });
  front.begin.resize(front.members.size() + 1);
  std::iota(front.begin.begin(), front.begin.end(), uint32_t{0});
  drop_convertible(op, front);
  return front;
}

// False if the plan needs too much memory.
bool Expander::go_on(size_t op, const Transition& transition, const Member& before, Member& after) {
  const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(transition.choice)];
  const Addition& reshards = transition.addition;
  after = before;
  after.choice = transition.choice;
  const double bytes = choice.persistent_bytes + choice.saved_bytes + reshards.bytes;
  after.bytes += bytes;
  if (limits_.memory && after.bytes + needs_[op + 1].bytes > problem_.memory_limit) {
    return false;
  }
  after.seconds += choice.step_s + limits_.price * bytes;
  const double forward = reshards.forward_comm + choice.forward_comm_s;
  const double backward = reshards.backward_comm + choice.backward_comm_s;
  exposed_forward_ |= !after.forward.hides(std::min(after.forward.open, forward));
  after.seconds += after.forward.communicate(forward, forward_turns_);
  exposed_forward_ |= !after.forward.hides(choice.gather_s);
  after.seconds += after.forward.message(choice.gather_s, forward_turns_);
  after.seconds +=
      after.forward.compute(choice.forward_compute_s + reshards.forward_compute, forward_turns_);

  exposed_backward_ |= !after.backward.hides(choice.sync_s);
  after.seconds += after.backward.message(choice.sync_s, backward_turns_);
  exposed_backward_ |= !after.backward.hides(std::min(after.backward.open, backward));
  after.seconds += after.backward.communicate(backward, backward_turns_);
  after.seconds += after.backward.compute(choice.backward_compute_s + reshards.backward_compute,
                                          backward_turns_);
  return true;
}

Front Expander::expand(size_t op, const Front& before) {
  if (limits_.additive) {
    return expand_additive(op, before);
  }
  Front front(liveness_.live[op + 1].size());
  const std::vector<Transition> all = transitions(op, before.states, front.states);
  // The transitions to a state one behind the other.
  std::vector<uint32_t> begin(front.states.size() + 1);
  for (const Transition& transition : all) {
    ++begin[transition.to + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<uint32_t> order(all.size());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (uint32_t t = 0; t < all.size(); ++t) {
    order[next[all[t].to]++] = t;
  }
  const Comparison by = comparison(op);
  std::vector<Member> members;  // of one state
  for (size_t state = 0; state < front.states.size(); ++state) {
    members.clear();
    for (uint32_t at = begin[state]; at < begin[state + 1]; ++at) {
      const Transition& transition = all[order[at]];
      for (uint32_t m = before.begin[transition.from]; m < before.begin[transition.from + 1]; ++m) {
        members.emplace_back();
        if (!go_on(op, transition, before.members[m], members.back())) {
          members.pop_back();
          continue;
        }
        members.back().parent = m;
      }
    }
    reduce(members, limits_.width, by);
    front.members.insert(front.members.end(), members.begin(), members.end());
    front.begin.push_back(static_cast<uint32_t>(front.members.size()));
  }
  most_states_ = std::max(most_states_, front.states.size());
  if (limits_.states > 0 && front.states.size() > limits_.states) {
    drop_states(front);
  }
  return front;
}

}  // namespace hidup
