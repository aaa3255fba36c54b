#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "program/lowering.h"

namespace hidup {
namespace {

using List = std::vector<Instruction>;

// A stage is communication and then computation (HiDup, section 4): the list is cut before every
// collective of the microbatch that follows its computation, and at `cuts`. What belongs to no
// microbatch (parameters, their gradients) cuts nothing, so that all microbatches have the same
// stages.
std::vector<List> stages_of(List& list, const std::vector<size_t>& cuts) {
  std::vector<List> stages(1);
  bool computed = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const bool collective = !collective_of(list[i].opcode).empty();
    const bool own = list[i].microbatch >= 0;
    const bool cut = std::ranges::find(cuts, i) != cuts.end();
    if (cut || (collective && own && computed)) {
      stages.emplace_back();
      computed = false;
    }
    computed |= !collective && own;
    stages.back().push_back(std::move(list[i]));
  }
  return stages;
}

}  // namespace

void Lowering::weave() {
  std::vector<std::vector<List>> lanes;
  for (Lane& lane : lanes_) {
    lanes.push_back(stages_of(lane.instructions, lane.cuts));
    lane.instructions.clear();
    lane.cuts.clear();
  }
  for (size_t stage = 0; stage < lanes[0].size(); ++stage) {
    for (std::vector<List>& stages : lanes) {
      check(stages.size() == lanes[0].size() || stages.size() == 1,
            "microbatches with {} and {} stages", stages.size(), lanes[0].size());
      if (stage < stages.size()) {
        for (Instruction& instruction : stages[stage]) {
          instruction.stage = static_cast<int>(stage);
        }
        std::ranges::move(stages[stage], std::back_inserter(program_.instructions));
      }
    }
  }
  microbatch_ = 0;
}

}  // namespace hidup
