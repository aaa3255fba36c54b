#include <algorithm>
#include <utility>

#include "program/builder.h"

namespace hidup {
namespace {

bool is_own_message(const Instruction& instruction) {
  return !collective_of(instruction.opcode).empty() && instruction.microbatch >= 0;
}

// Returns the cuts that begin a stage. A cut at the gather of a bucket of parameters does not where
// the microbatch communicates between this gather and the one before or after it: the stage would
// take away computation that hides this communication.
std::vector<size_t> cuts_that_count(const std::vector<Instruction>& list,
                                    const std::vector<size_t>& cuts) {
  std::vector<size_t> count;
  for (const size_t cut : cuts) {
    const auto at = std::ranges::lower_bound(cuts, cut);
    const auto next = std::ranges::upper_bound(cuts, cut);
    const size_t begin = at == cuts.begin() ? 0 : *(at - 1);
    const size_t end = next == cuts.end() ? list.size() : *next;
    const bool gathers = cut < list.size() && list[cut].phase == Phase::forward;
    if (!gathers || std::none_of(list.begin() + static_cast<std::ptrdiff_t>(begin),
                                 list.begin() + static_cast<std::ptrdiff_t>(end), is_own_message)) {
      count.push_back(cut);
    }
  }
  return count;
}

// Returns the beginnings of the list's stages, and its end. A stage is communication and then
// computation (HiDup, section 4). So a stage begins at every collective of the microbatch that
// follows its computation, and at `cuts` (rising). Instructions without a microbatch (of parameters
// and gradients) begin none, nor does a second cut after only such instructions: microbatches have
// equal stages.
std::vector<size_t> stages_of(const std::vector<Instruction>& list,
                              const std::vector<size_t>& cuts) {
  std::vector<size_t> begins = {0};
  bool computed = false;
  bool has_own = true;  // an instruction of the microbatch since the last cut
  for (size_t i = 0; i < list.size(); ++i) {
    const bool own = list[i].microbatch >= 0;
    const bool message = is_own_message(list[i]);
    const bool cut = std::ranges::binary_search(cuts, i);
    if ((cut && has_own) || (message && computed)) {
      begins.push_back(i);
      computed = has_own = false;
    }
    has_own |= own;
    computed |= own && !message;
  }
  begins.push_back(list.size());
  return begins;
}

}  // namespace

void ProgramBuilder::weave(int slot) {
  struct Part {
    size_t list, stage, begin, end, stages;
  };
  std::vector<Part> parts;
  for (size_t l = 0; l < lists_.size(); ++l) {
    const List& list = lists_[l];
    const std::vector<size_t> begins =
        stages_of(list.instructions, cuts_that_count(list.instructions, list.cuts));
    for (size_t stage = 0; stage + 1 < begins.size(); ++stage) {
      parts.push_back({l, stage, begins[stage], begins[stage + 1], begins.size() - 1});
    }
  }
  // Lists of one task have equally many stages. Those of different tasks advance in proportion.
  std::ranges::stable_sort(
      parts, [](const Part& a, const Part& b) { return a.stage * b.stages < b.stage * a.stages; });
  for (const Part& part : parts) {
    for (size_t i = part.begin; i < part.end; ++i) {
      Instruction& instruction = lists_[part.list].instructions[i];
      instruction.stage = static_cast<int>(part.stage);
      instruction.slot = slot;
      program_.instructions.push_back(std::move(instruction));
    }
  }
  lists_.assign(1, {});
}

}  // namespace hidup
