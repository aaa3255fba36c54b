#include "search/dp/expand.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace hidup {
namespace {

// Returns true where a is at least as good as b, whatever follows. A second of a message costs at
// most a second (problem.h), a second of an update exactly one: shorter updates offset messages.
bool dominates(const Choice& a, const Choice& b, const SweepOptions& options) {
  const auto same = [](const InputLayouts& x, const InputLayouts& y) {
    return x.required == y.required && x.gradient == y.gradient;
  };
  if (a.output != b.output || !std::ranges::equal(a.inputs, b.inputs, same)) {
    return false;
  }
  const auto bytes = [](const Choice& choice) {
    return choice.persistent_bytes + choice.saved_bytes;
  };
  const double more_sent_s =
      std::max(0.0, a.gather_s - b.gather_s) + std::max(0.0, a.sync_s - b.sync_s);
  const auto costs = [&](const Choice& choice, double sent_s) {
    return std::array{choice.forward_compute_s,
                      choice.backward_compute_s,
                      choice.forward_comm_s,
                      choice.backward_comm_s,
                      choice.step_s + sent_s + options.memory_multiplier * bytes(choice),
                      options.memory ? bytes(choice) : 0.0};
  };
  return std::ranges::equal(costs(a, more_sent_s), costs(b, 0.0), std::less_equal{});
}

void raise_to(RemainingWork& work, const RemainingWork& other) {
  work.largest_comm = std::max(work.largest_comm, other.largest_comm);
  work.compute = std::max(work.compute, other.compute);
  work.messages = std::max(work.messages, other.messages);
}

void add_operation(RemainingWork& work, const RemainingWork& op) {
  work.largest_comm = std::max(work.largest_comm, op.largest_comm);
  work.compute += op.compute;
  work.messages += op.messages;
}

void add(Addition& sum, const Addition& other) {
  sum.forward_comm += other.forward_comm;
  sum.forward_compute += other.forward_compute;
  sum.backward_comm += other.backward_comm;
  sum.backward_compute += other.backward_compute;
  sum.bytes += other.bytes;
}

}  // namespace

Expander::Expander(const Problem& problem, const SweepOptions& options)
    : problem_(problem),
      options_(options),
      forward_turns_(problem, true),
      backward_turns_(problem, false),
      liveness_(liveness_of(problem)) {
  find_usable();
  find_remaining();
}

void Expander::find_usable() {
  for (const OpChoices& kind : problem_.kinds) {
    std::vector<int> usable;
    for (size_t c = 0; c < kind.choices.size(); ++c) {
      const bool dominated = std::ranges::any_of(usable, [&](int other) {
        return dominates(kind.choices[static_cast<size_t>(other)], kind.choices[c], options_);
      });
      if (dominated) {
        continue;
      }
      std::erase_if(usable, [&](int other) {
        return dominates(kind.choices[c], kind.choices[static_cast<size_t>(other)], options_);
      });
      usable.push_back(static_cast<int>(c));
    }
    usable_.push_back(std::move(usable));
  }
}

void Expander::find_remaining() {
  const std::vector<size_t> alike = first_alike(problem_);
  std::vector<Remaining> most(problem_.ops.size());  // of one operation
  for (size_t op = 0; op < problem_.ops.size(); ++op) {
    most[op] = alike[op] == op ? remaining_of(op) : most[alike[op]];
  }
  remaining_.resize(problem_.ops.size() + 1);
  for (size_t op = problem_.ops.size(); op-- > 0;) {
    remaining_[op] = remaining_[op + 1];
    add_operation(remaining_[op].forward, most[op].forward);
    add_operation(remaining_[op].backward, most[op].backward);
    remaining_[op].bytes += most[op].bytes;
  }
}

Expander::Remaining Expander::remaining_of(size_t op) const {
  Remaining most;
  most.bytes = std::numeric_limits<double>::infinity();
  for (const int c : usable(op)) {
    const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(c)];
    RemainingWork forward{choice.forward_comm_s, choice.forward_compute_s, choice.gather_s};
    RemainingWork backward{choice.backward_comm_s, choice.backward_compute_s, choice.sync_s};
    for (size_t i = 0; i < choice.inputs.size(); ++i) {
      const auto producer = static_cast<size_t>(problem_.ops[op].inputs[i]);
      const TensorCosts& costs = problem_.tensor_of(producer);
      const Reshard there = costs.forward.costliest_to(choice.inputs[i].required);
      const Reshard back = costs.backward.costliest_to(choice.inputs[i].gradient);
      forward.largest_comm += there.comm_s;
      forward.compute += there.compute_s;
      backward.largest_comm += back.comm_s;
      backward.compute += back.compute_s;
    }
    raise_to(most.forward, forward);
    raise_to(most.backward, backward);
    most.bytes = std::min(most.bytes, choice.persistent_bytes + choice.saved_bytes);
  }
  return most;
}

Comparison Expander::comparison(size_t op) const {
  return {.forward_turns = forward_turns_,
          .backward_turns = backward_turns_,
          .forward = remaining_[op + 1].forward,
          .backward = remaining_[op + 1].backward,
          .bytes = options_.memory};
}

Front Expander::first() const {
  Front front(0);
  const StatusId no_tensor = 0;
  front.states.find_or_add(&no_tensor);
  front.plans.push_back(
      {.seconds = problem_.base_s + options_.memory_multiplier * problem_.base_bytes,
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

// Finds the effects of every choice on the tensors that the operation reads in this state.
void Expander::find_rows(size_t op, const Steps& steps, const StatusId* statuses,
                         Rows& rows) const {
  rows.clear();
  const std::vector<ReadTensor>& read = liveness_.read[op];
  for (size_t r = 0; r < read.size(); ++r) {
    const Changes& changes = steps.changes[r];
    const auto row = static_cast<size_t>(changes.row_of[statuses[read[r].slot]]);
    rows.push_back(changes.changes.data() + row * steps.choices.size());
  }
}

// Calls visit(state, index of the choice, the changes of the tensors read, the next state).
template <typename Visit>
void Expander::for_steps(size_t op, const Steps& steps, const States& before, States& after,
                         Visit visit) const {
  Rows rows;
  std::vector<StatusId> key(steps.moves.size());
  uint32_t to = 0;
  for (size_t state = 0; state < before.size(); ++state) {
    const StatusId* statuses = before.key(state);
    find_rows(op, steps, statuses, rows);
    for (size_t c = 0; c < steps.choices.size(); ++c) {
      for (size_t m = 0; m < steps.moves.size(); ++m) {
        const Move& move = steps.moves[m];
        key[m] = move.from == Move::From::state  ? statuses[move.slot]
                 : move.from == Move::From::read ? rows[move.slot][c].status
                                                 : steps.outputs[c];
      }
      // Consecutive choices may differ in storages only, which leads to the same state.
      if (after.size() == 0 || !States::same(key.data(), after.key(to), key.size())) {
        to = after.find_or_add(key.data());
      }
      visit(state, c, rows, to);
    }
  }
}

// Where costs add up, the fastest plan of a state dominates all others.
Front Expander::expand_additive(size_t op, const Front& before) {
  Steps steps = steps_of(op, before.states);
  const auto seconds_of = [this](const Addition& a) {
    return a.forward_comm + a.forward_compute + a.backward_comm + a.backward_compute +
           options_.memory_multiplier * a.bytes;
  };
  std::vector<double> own;
  for (const int c : steps.choices) {
    const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(c)];
    own.push_back(choice.forward_comm_s + choice.forward_compute_s + choice.backward_comm_s +
                  choice.backward_compute_s + choice.gather_s + choice.sync_s + choice.step_s +
                  options_.memory_multiplier * (choice.persistent_bytes + choice.saved_bytes));
  }
  for (Changes& changes : steps.changes) {
    for (Change& change : changes.changes) {
      change.seconds = seconds_of(change.addition);
    }
  }
  Front front(liveness_.live[op + 1].size());
  for_steps(op, steps, before.states, front.states,
            [&](size_t state, size_t c, const Rows& rows, uint32_t to) {
              ++work_;
              double seconds = before.plans[state].seconds + own[c];
              for (const Change* row : rows) {
                seconds += row[c].seconds;
              }
              if (to == front.plans.size()) {
                front.plans.emplace_back();
              } else if (front.plans[to].seconds <= seconds) {
                return;
              }
              front.plans[to] = {.seconds = seconds,
                                 .parent = static_cast<uint32_t>(state),
                                 .choice = steps.choices[c]};
            });
  front.begin.resize(front.plans.size() + 1);
  std::iota(front.begin.begin(), front.begin.end(), uint32_t{0});
  drop_convertible(op, front);
  return front;
}

// Returns false where the plan needs too much memory.
bool Expander::continue_with(size_t op, int32_t number, const Addition& reshards,
                             PartialPlan& plan) {
  const Choice& choice = problem_.choices_of(op).choices[static_cast<size_t>(number)];
  plan.choice = number;
  const double bytes = choice.persistent_bytes + choice.saved_bytes + reshards.bytes;
  plan.bytes += bytes;
  if (options_.memory && plan.bytes + remaining_[op + 1].bytes > problem_.memory_limit) {
    return false;
  }
  plan.seconds += choice.step_s + options_.memory_multiplier * bytes;
  const double forward = reshards.forward_comm + choice.forward_comm_s;
  const double backward = reshards.backward_comm + choice.backward_comm_s;
  exposed_forward_ |= !plan.forward.keeps_up_with(forward);
  plan.seconds += plan.forward.communicate(forward, forward_turns_);
  exposed_forward_ |= !plan.forward.hides(choice.gather_s);
  plan.seconds += plan.forward.message(choice.gather_s, forward_turns_);
  plan.seconds +=
      plan.forward.compute(choice.forward_compute_s + reshards.forward_compute, forward_turns_);

  exposed_backward_ |= !plan.backward.hides(choice.sync_s);
  plan.seconds += plan.backward.message(choice.sync_s, backward_turns_);
  exposed_backward_ |= !plan.backward.keeps_up_with(backward);
  plan.seconds += plan.backward.communicate(backward, backward_turns_);
  plan.seconds +=
      plan.backward.compute(choice.backward_compute_s + reshards.backward_compute, backward_turns_);
  return true;
}

void Expander::Continuations::make_room(const std::vector<uint32_t>& counts) {
  begin.clear();
  uint32_t total = 0;
  for (const uint32_t count : counts) {
    begin.push_back(total);
    total += count;
  }
  end = begin;
  fastest_s.assign(counts.size(), std::numeric_limits<double>::infinity());
  plans.resize(std::max<size_t>(plans.size(), total));
}

void Expander::find_continuations(size_t op, const Front& before, States& after) {
  const Steps steps = steps_of(op, before.states);
  const auto plans_of = [&](size_t state) { return before.begin[state + 1] - before.begin[state]; };
  std::vector<uint32_t> next_states;  // per state and choice
  next_states.reserve(before.states.size() * steps.choices.size());
  std::vector<uint32_t> counts;  // plans per next state
  for_steps(op, steps, before.states, after,
            [&](size_t state, size_t /*choice*/, const Rows& /*rows*/, uint32_t to) {
              next_states.push_back(to);
              counts.resize(after.size());
              counts[to] += plans_of(state);
            });
  continuations_.make_room(counts);
  Rows rows;
  const uint32_t* to = next_states.data();
  for (size_t state = 0; state < before.states.size(); ++state) {
    find_rows(op, steps, before.states.key(state), rows);
    for (size_t c = 0; c < steps.choices.size(); ++c, ++to) {
      Addition reshards;
      for (const Change* row : rows) {
        add(reshards, row[c].addition);
      }
      for (uint32_t p = before.begin[state]; p < before.begin[state + 1]; ++p) {
        PartialPlan& plan = continuations_.plans[continuations_.end[*to]];
        plan = before.plans[p];
        plan.parent = p;
        if (continue_with(op, steps.choices[c], reshards, plan)) {
          ++continuations_.end[*to];
          double& fastest_s = continuations_.fastest_s[*to];
          fastest_s = std::min(fastest_s, plan.seconds);
        }
      }
    }
  }
}

Front Expander::expand(size_t op, const Front& before) {
  if (options_.additive) {
    return expand_additive(op, before);
  }
  Front front(liveness_.live[op + 1].size());
  find_continuations(op, before, front.states);
  const Continuations& all = continuations_;
  std::vector<bool> kept(front.states.size(), true);
  if (options_.states > 0 && front.states.size() > options_.states) {
    dropped_states_ = true;
    kept = fastest_states(all.fastest_s);
    front.states = with_states(front.states, kept);
  }
  const Comparison by = comparison(op);
  std::vector<PartialPlan> plans;  // of one state
  for (size_t state = 0; state < kept.size(); ++state) {
    if (!kept[state]) {
      continue;
    }
    plans.assign(all.plans.begin() + all.begin[state], all.plans.begin() + all.end[state]);
    narrowed_ |= options_.width > 0 && plans.size() > options_.width;
    work_ += plans.size() + (options_.bound_only ? prune_for_bound(plans, options_.width, by)
                                                 : prune(plans, options_.width, by));
    front.plans.insert(front.plans.end(), plans.begin(), plans.end());
    front.begin.push_back(static_cast<uint32_t>(front.plans.size()));
  }
  return front;
}

}  // namespace hidup
