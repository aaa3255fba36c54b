#include "train/inputs.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/with_type.h"
#include "deck/cluster_deck.h"
#include "deck/train_deck.h"
#include "train/workload.h"

namespace hidup {
namespace {

// Returns a part of the samples `whole`, [part.extent[0], ..]; `part` refers to the step's batch.
template <typename T>
std::vector<T> cut_out(const std::vector<T>& whole, Region part) {
  std::vector<T> found;
  const int64_t count = part.elements();
  found.reserve(static_cast<size_t>(count));
  part.start[0] = 0;
  part.global[0] = part.extent[0];
  for (int64_t at = 0, run = part.contiguous_run(); at < count; at += run) {
    const auto from = whole.begin() + part.global_index(at);
    found.insert(found.end(), from, from + run);
  }
  return found;
}

std::vector<std::byte> rounded(const std::vector<float>& values, DType dtype) {
  return with_floating_type(dtype, [&](auto zero) {
    const std::vector<decltype(zero)> narrow(values.begin(), values.end());
    const auto bytes = std::as_bytes(std::span(narrow));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
}

}  // namespace

void fill_inputs(const Program& program, int64_t rank, const Deck& deck, const Batches& batches,
                 int64_t step, StepInputs& inputs, int64_t end) {
  const int64_t first = (step - 1) * deck.train->batch;
  std::map<std::pair<int64_t, int64_t>, Samples> known;  // by first sample and count
  const auto samples_of = [&](const Region& part) -> const Samples& {
    const auto [at, added] = known.try_emplace({part.start[0], part.extent[0]});
    if (added) {
      const int64_t sample = first + part.start[0];
      at->second = batches.read(sample, part.extent[0]);
      const int64_t with_targets = std::clamp<int64_t>(end - sample, 0, part.extent[0]);
      std::vector<int32_t>& targets = at->second.targets;
      std::fill(targets.begin() + with_targets * batches.targets(), targets.end(), -1);
    }
    return at->second;
  };
  inputs = {};
  for (const ValueId id : program.tokens) {
    const Region part = program.region(id, rank);
    inputs.tokens.push_back(cut_out(samples_of(part).tokens, part));
  }
  for (const ValueId id : program.targets) {
    const Region part = program.region(id, rank);
    inputs.targets.push_back(cut_out(samples_of(part).targets, part));
  }
  for (const ValueId id : program.images) {
    const Region part = program.region(id, rank);
    inputs.images.push_back(
        rounded(cut_out(samples_of(part).images, part), program.value(id).dtype));
  }
  inputs.choices = choices_of(program, rank, deck, step);
}

Executor::Order execution_order(const Deck& deck, bool timed) {
  if (deck.train->overlap == "off") {
    return Executor::Order::in_turn;
  }
  if (deck.cluster->device_graph == "off") {
    return Executor::Order::overlapped;
  }
  return timed ? Executor::Order::recorded : Executor::Order::recorded_untimed;
}

}  // namespace hidup
