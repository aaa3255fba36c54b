#include "search/problem/memory_variants.h"

#include <algorithm>
#include <utility>

#include "graph/operation.h"
#include "sharding/memory_choices.h"

namespace hidup {

MemoryVariants::MemoryVariants(const Graph& graph, const Hints& hints, bool choose,
                               const std::vector<int>& reads, const TransientMemory& transient)
    : graph_(graph),
      hints_(hints),
      choose_(choose),
      transient_(transient),
      may_recompute_(graph.ops().size()),
      recompute_for_readers_(graph.ops().size()) {
  if (choose) {
    find_recomputable(reads);
  }
}

void MemoryVariants::find_recomputable(const std::vector<int>& reads) {
  may_recompute_ = recomputed_ops(graph_, Recompute::block);
  const bool has_blocks = std::ranges::find(may_recompute_, true) != may_recompute_.end();
  if (!has_blocks) {
    may_recompute_ = recomputed_ops(graph_, Recompute::cheap);
    return;
  }
  for (OpId op = 0; op < static_cast<OpId>(graph_.ops().size()); ++op) {
    const Op& self = graph_.op(op);
    recompute_for_readers_[static_cast<size_t>(op)] =
        may_recompute(op) && !recompute_hint(op) && reads[static_cast<size_t>(self.output)] == 0 &&
        spec_of(self.kind).saved.empty();
  }
}

std::optional<bool> MemoryVariants::recompute_hint(OpId op) const {
  const OperationHint* hint = hints_.of_operation(op);
  return hint != nullptr ? hint->recompute : std::nullopt;
}

void MemoryVariants::add(OpId op, const Choice& choice, const std::vector<Gather>& gathers,
                         const ChoiceMeaning& meaning, std::vector<Choice>& choices,
                         std::vector<ChoiceMeaning>& meanings) const {
  const std::optional<bool> hint = recompute_hint(op);
  const bool saves = choice.saved_bytes > 0.0;
  std::vector<TransientBytes> bytes;
  bytes.reserve(gathers.size());
  for (const Gather& gather : gathers) {
    bytes.push_back(gather.bytes);
  }
  for (const std::vector<Residency>& residencies : residency_choices(meaning, gathers)) {
    for (const bool recompute : {false, true}) {
      if (hint ? recompute != *hint : recompute && !(saves && may_recompute(op))) {
        continue;
      }
      Choice& variant = choices.emplace_back(choice);
      meanings.push_back(meaning);
      for (size_t p = 0; p < residencies.size(); ++p) {
        variant.sync_s += residencies[p] == Residency::pass ? gathers[p].seconds : 0.0;
      }
      variant.persistent_bytes += transient_.bytes(bytes, residencies);
      meanings.back().residency = residencies;
      meanings.back().op_strategy.recompute = recompute;
      if (recompute && saves) {
        variant.backward_compute_s += variant.forward_compute_s;
        variant.backward_comm_s += variant.forward_comm_s;
        variant.saved_bytes = 0.0;
      }
    }
  }
}

// Returns the residencies: all parameters for the step and, if that saves memory, all for a pass.
// Hints override both.
std::vector<std::vector<Residency>> MemoryVariants::residency_choices(
    const ChoiceMeaning& meaning, const std::vector<Gather>& gathers) const {
  std::vector<std::vector<Residency>> choices;
  for (const Residency free : {Residency::step, Residency::pass}) {
    Gather saved;
    std::vector<Residency> residencies;
    for (size_t p = 0; p < gathers.size(); ++p) {
      const ParameterHint* hint = hints_.of_parameter(meaning.parameters[p].tensor);
      const bool is_free = hint == nullptr || !hint->residency;
      residencies.push_back(is_free ? free : *hint->residency);
      saved.seconds += is_free ? gathers[p].seconds : 0.0;
      saved.bytes.gathered += is_free ? gathers[p].bytes.gathered : 0.0;
    }
    if (free == Residency::step || (choose_ && saved.bytes.gathered > 0.0 && saved.seconds > 0.0)) {
      choices.push_back(std::move(residencies));
    }
  }
  return choices;
}

}  // namespace hidup
