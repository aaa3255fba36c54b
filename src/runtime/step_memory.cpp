#include "runtime/step_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/check.h"

namespace hidup {
namespace {

using kernels::StepState;

// Offsets of the states in host memory, and the bytes of a state that the host sends.
constexpr int64_t kSentState = 0;
constexpr int64_t kFetchedState = kAlignment;
constexpr int64_t kSentBytes = offsetof(StepState, loss_scale);

// Returns the values that the host reads after every step. (It reads logits after the last step.)
std::vector<ValueId> results_of(const Program& program) {
  std::vector<ValueId> results = program.expert_loads;
  for (const RouterSums& sums : program.router_sums) {
    results.push_back(sums.value);
  }
  results.push_back(program.loss);
  if (program.gradient_norm >= 0) {
    results.push_back(program.gradient_norm);
  }
  return results;
}

}  // namespace

StepMemory::StepMemory(const Program& program, const MemoryPlan& plan, Device& device,
                       std::byte* arena, StepState* state)
    : plan_(plan), arena_(arena), state_(state), bytes_(2 * kAlignment) {
  const auto place_all = [this](const std::vector<ValueId>& values, std::vector<Copy>& copies) {
    for (const ValueId value : values) {
      copies.push_back(place(value));
    }
  };
  place_all(program.tokens, tokens_);
  place_all(program.targets, targets_);
  place_all(program.images, images_);
  place_all(program.choices, choices_);
  for (const ValueId value : results_of(program)) {
    results_.emplace(value, place(value));
  }
  host_ = device.allocate_host(bytes_);
  fetched_ = device.create_event();
}

StepMemory::Copy StepMemory::place(ValueId value) {
  const auto v = static_cast<size_t>(value);
  const Copy copy{arena_ + plan_.offsets[v], bytes_, plan_.sizes[v]};
  bytes_ += (copy.bytes + kAlignment - 1) / kAlignment * kAlignment;
  return copy;
}

void StepMemory::send(Stream& stream, int64_t step, double learning_rate,
                      const StepInputs& inputs) {
  step_ = step;
  const StepState state{.step = static_cast<uint64_t>(step),
                        .learning_rate = static_cast<float>(learning_rate)};
  std::memcpy(host_->data() + kSentState, &state, kSentBytes);
  stream.copy(state_, host_->data() + kSentState, kSentBytes);
  const auto send_all = [&](const std::vector<Copy>& copies, const auto& parts) {
    for (size_t i = 0; i < copies.size(); ++i) {
      const auto part = std::as_bytes(std::span(parts.at(i)));
      check(std::ssize(part) == copies[i].bytes, "an input of {} bytes, not {}", part.size(),
            copies[i].bytes);
      std::byte* const from = host_->data() + copies[i].at;
      std::ranges::copy(part, from);
      stream.copy(copies[i].device, from, copies[i].bytes);
    }
  };
  send_all(tokens_, inputs.tokens);
  send_all(targets_, inputs.targets);
  send_all(images_, inputs.images);
  send_all(choices_, inputs.choices);
}

void StepMemory::fetch(Stream& stream) {
  stream.copy(host_->data() + kFetchedState, state_, sizeof(StepState));
  for (const auto& [value, copy] : results_) {
    stream.copy(host_->data() + copy.at, copy.device, copy.bytes);
  }
  stream.record(*fetched_);
}

const StepState& StepMemory::state() const {
  return *reinterpret_cast<const StepState*>(host_->data() + kFetchedState);
}

std::span<const float> StepMemory::result(ValueId value) const {
  const Copy& copy = results_.at(value);
  return {reinterpret_cast<const float*>(host_->data() + copy.at),
          static_cast<size_t>(copy.bytes) / sizeof(float)};
}

}  // namespace hidup
