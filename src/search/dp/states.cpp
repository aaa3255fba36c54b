#include "search/dp/states.h"

#include <algorithm>
#include <limits>
#include <span>

#include "core/check.h"

namespace hidup {
namespace {

// Removes layouts that no later operation requires or that free reshards reach, so that fewer
// states differ.
void forget(LayoutSet& done, const LayoutSet& later, const Reshards& reshards, int written) {
  done.keep_if([&](int read) {
    const Reshard& reshard = reshards.between(written, read);
    return later.has(read) && reshard.comm_s + reshard.compute_s + reshard.bytes != 0.0;
  });
}

// Returns, per kind of operations and input, the layouts in which some choice requires the input or
// leaves its gradient.
std::vector<std::vector<LaterLayouts>> possible_layouts(const Problem& problem) {
  std::vector<std::vector<LaterLayouts>> possible;
  for (const OpChoices& kind : problem.kinds) {
    std::vector<LaterLayouts> inputs;
    for (const Choice& choice : kind.choices) {
      inputs.resize(choice.inputs.size());
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i].required.add(choice.inputs[i].required);
        if (choice.inputs[i].gradient >= 0) {
          inputs[i].gradient.add(choice.inputs[i].gradient);
        }
      }
    }
    possible.push_back(std::move(inputs));
  }
  return possible;
}

// Returns the operation's tensors, each once, with the layouts that later readers may require.
std::vector<ReadTensor> tensors_read(const SearchOp& op, const std::vector<LaterLayouts>& later,
                                     const std::vector<bool>& has_later) {
  std::vector<ReadTensor> read;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto producer = static_cast<size_t>(op.inputs[i]);
    auto tensor = std::ranges::find(read, producer, &ReadTensor::producer);
    if (tensor == read.end()) {
      tensor = read.insert(
          read.end(),
          {.producer = producer, .later = later[producer], .last = !has_later[producer]});
    }
    tensor->inputs.push_back(i);
  }
  return read;
}

}  // namespace

StatusId Statuses::id_of(const TensorStatus& status) {
  const auto [at, is_new] = ids_.try_emplace({status.layout, status.forward, status.backward},
                                             static_cast<StatusId>(statuses_.size()));
  if (is_new) {
    check(statuses_.size() < std::numeric_limits<StatusId>::max(), "too many states of tensors");
    statuses_.push_back(status);
  }
  return at->second;
}

Liveness liveness_of(const Problem& problem) {
  const size_t count = problem.ops.size();
  Liveness liveness{.live = std::vector<std::vector<size_t>>(count + 1),
                    .read = std::vector<std::vector<ReadTensor>>(count),
                    .later = std::vector<std::vector<LaterLayouts>>(count + 1),
                    .is_read = std::vector<bool>(count)};
  const std::vector<std::vector<LaterLayouts>> possible = possible_layouts(problem);
  std::vector<LaterLayouts> later(count);
  for (size_t op = count; op-- > 0;) {
    const SearchOp& self = problem.ops[op];
    liveness.read[op] = tensors_read(self, later, liveness.is_read);
    for (size_t i = 0; i < self.inputs.size(); ++i) {
      const auto producer = static_cast<size_t>(self.inputs[i]);
      const LaterLayouts& layouts = possible[static_cast<size_t>(self.kind)][i];
      later[producer].required |= layouts.required;
      later[producer].gradient |= layouts.gradient;
      liveness.is_read[producer] = true;
    }
  }
  std::vector<LaterLayouts> now = later;  // of all readers
  for (size_t op = 0; op < count; ++op) {
    std::vector<size_t> next = liveness.live[op];
    for (ReadTensor& tensor : liveness.read[op]) {
      const auto at = std::ranges::find(liveness.live[op], tensor.producer);
      tensor.slot = static_cast<size_t>(at - liveness.live[op].begin());
      now[tensor.producer] = tensor.later;
      if (tensor.last) {
        std::erase(next, tensor.producer);
      }
    }
    if (liveness.is_read[op]) {
      next.push_back(op);
    }
    for (const size_t tensor : next) {
      liveness.later[op + 1].push_back(now[tensor]);
    }
    liveness.live[op + 1] = std::move(next);
  }
  return liveness;
}

uint64_t States::hash(const StatusId* key) const {
  uint64_t hash = 0x9E3779B97F4A7C15ULL;
  for (const StatusId status : std::span(key, tensors_)) {
    hash = (hash ^ status) * 0xBF58476D1CE4E5B9ULL;
    hash ^= hash >> 31U;
  }
  return hash;
}

uint32_t States::find_or_add(const StatusId* key) {
  const size_t mask = table_.size() - 1;
  size_t at = hash(key) & mask;
  for (; table_[at] != kNone; at = (at + 1) & mask) {
    if (same(key, this->key(table_[at]), tensors_)) {
      return table_[at];
    }
  }
  const auto state = static_cast<uint32_t>(count_++);
  table_[at] = state;
  keys_.insert(keys_.end(), key, key + tensors_);
  if (count_ * 2 > table_.size()) {
    grow();
  }
  return state;
}

void States::grow() {
  table_.assign(table_.size() * 2, kNone);
  const size_t mask = table_.size() - 1;
  for (size_t state = 0; state < count_; ++state) {
    size_t at = hash(key(state)) & mask;
    while (table_[at] != kNone) {
      at = (at + 1) & mask;
    }
    table_[at] = static_cast<uint32_t>(state);
  }
}

double conversion(const TensorCosts& costs, const LaterLayouts& later, const TensorStatus& a,
                  const TensorStatus& b, double memory_multiplier) {
  double total = 0.0;
  const auto add = [&](const Reshards& reshards, const LayoutSet& layouts, const LayoutSet& done_a,
                       const LayoutSet& done_b) {
    const auto cost = [&](int written, const LayoutSet& done, int read) {
      const Reshard& reshard = reshards.between(written, read);
      return done.has(read)
                 ? 0.0
                 : reshard.comm_s + reshard.compute_s + memory_multiplier * reshard.bytes;
    };
    layouts.for_each([&](int read) {
      total += std::max(0.0, cost(a.layout, done_a, read) - cost(b.layout, done_b, read));
    });
  };
  add(costs.forward, later.required, a.forward, b.forward);
  add(costs.backward, later.gradient, a.backward, b.backward);
  return total;
}

TensorStatus read_tensor(const Problem& problem, const ReadTensor& tensor, const Choice& choice,
                         TensorStatus status, Addition& addition) {
  const TensorCosts& costs = problem.tensor_of(tensor.producer);
  for (const size_t input : tensor.inputs) {
    const InputLayouts& layouts = choice.inputs[input];
    if (!status.forward.has(layouts.required)) {
      const Reshard& reshard = costs.forward.between(status.layout, layouts.required);
      addition.forward_comm += reshard.comm_s;
      addition.forward_compute += reshard.compute_s;
      addition.bytes += reshard.bytes;
      status.forward.add(layouts.required);
    }
    if (layouts.gradient >= 0 && !status.backward.has(layouts.gradient)) {
      const Reshard& reshard = costs.backward.between(status.layout, layouts.gradient);
      addition.backward_comm += reshard.comm_s;
      addition.backward_compute += reshard.compute_s;
      addition.bytes += reshard.bytes;
      status.backward.add(layouts.gradient);
    }
  }
  forget(status.forward, tensor.later.required, costs.forward, status.layout);
  forget(status.backward, tensor.later.gradient, costs.backward, status.layout);
  return status;
}

}  // namespace hidup
