#include <algorithm>
#include <utility>

#include "core/check.h"
#include "program/lowering.h"

namespace hidup {
namespace {

// Where the stages of the list begin, and its end. A stage is communication and then computation
// (HiDup, section 4): the list is cut before every collective of the microbatch that follows its
// computation, and at `cuts` (rising). What belongs to no microbatch (parameters, their gradients)
// cuts nothing, so that all microbatches have the same stages.
std::vector<size_t> stages_of(const std::vector<Instruction>& list,
                              const std::vector<size_t>& cuts) {
  std::vector<size_t> begins = {0};
  bool computed = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool collective = !collective_of(list[i].opcode).empty();
    const bool own = list[i].microbatch >= 0;
    const bool cut = std::ranges::binary_search(cuts, i);
    if (cut || (collective && own && computed)) {
      begins.push_back(i);
      computed = false;
    }
    computed |= !collective && own;
  }
  begins.push_back(list.size());
  return begins;
}

}  // namespace

void Lowering::weave() {
  std::vector<std::vector<size_t>> begins;
  for (const Lane& lane : lanes_) {
    begins.push_back(stages_of(lane.instructions, lane.cuts));
  }
  const size_t stages = begins[0].size() - 1;
  for (size_t stage = 0; stage < stages; ++stage) {
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const size_t own = begins[l].size() - 1;
      check(own == stages || own == 1, "microbatches with {} and {} stages", own, stages);
      if (stage >= own) {
        continue;
      }
      for (size_t i = begins[l][stage]; i < begins[l][stage + 1]; ++i) {
        Instruction& instruction = lanes_[l].instructions[i];
        instruction.stage = static_cast<int>(stage);
        program_.instructions.push_back(std::move(instruction));
      }
    }
  }
  for (Lane& lane : lanes_) {
    lane.instructions.clear();
    lane.cuts.clear();
  }
  microbatch_ = 0;
}

}  // namespace hidup
