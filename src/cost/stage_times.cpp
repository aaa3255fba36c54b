#include "cost/stage_times.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cost/duration.h"
#include "cost/simulate.h"

namespace hidup {
namespace {

using pipeline::Pass;
using pipeline::Task;

using PassSeconds = std::array<std::vector<double>, 3>;  // [pass][chunk]

// Returns the task of the slot to which an instruction of the chunk belongs. A slot that weaves two
// passes of a chunk has a forward and a backward one.
const Task* task_of(const StageSlot& slot, int chunk, Phase phase) {
  const Task* found = nullptr;
  for (const Task& task : slot.tasks) {
    const bool alike = (task.pass == Pass::forward) == (phase == Phase::forward);
    if (task.chunk == chunk && (alike || found == nullptr)) {
      found = &task;
    }
  }
  return found;
}

// Returns the seconds that the rank computes for all microbatches.
PassSeconds seconds_on(int64_t rank, const Program& program, const Stages& stages,
                       const std::vector<StageSlot>& slots, const RankCosts& costs) {
  PassSeconds seconds;
  seconds.fill(std::vector<double>(stages.pipeline.device_of.size(), 0.0));
  for (const Instruction& instruction : program.instructions) {
    if (instruction.slot < 0 || instruction.op < 0 || communicates(instruction.stream) ||
        skips(program, instruction, rank)) {
      continue;
    }
    const int chunk = stages.chunk_of[static_cast<size_t>(instruction.op)];
    const Task* task =
        task_of(slots[static_cast<size_t>(instruction.slot)], chunk, instruction.phase);
    if (task != nullptr) {
      seconds[static_cast<size_t>(task->pass)][static_cast<size_t>(chunk)] +=
          duration_of(program, costs.of(rank), instruction, rank).alone_s + costs.launch_s();
    }
  }
  return seconds;
}

}  // namespace

pipeline::Times stage_times(const Program& program, const Stages& stages,
                            const std::vector<StageSlot>& slots, const RankCosts& costs) {
  const size_t chunks = stages.pipeline.device_of.size();
  PassSeconds most;
  most.fill(std::vector<double>(chunks, 0.0));
  for (const int64_t rank : ranks_of_every_kind(program, costs)) {
    const PassSeconds own = seconds_on(rank, program, stages, slots, costs);
    for (size_t pass = 0; pass < most.size(); ++pass) {
      std::ranges::transform(most[pass], own[pass], most[pass].begin(),
                             [](double a, double b) { return std::max(a, b); });
    }
  }
  pipeline::Times times;
  const auto nanoseconds = [&](Pass pass) {
    std::vector<Nanoseconds> each(chunks);
    std::ranges::transform(most[static_cast<size_t>(pass)], each.begin(), [&](double seconds) {
      return std::lround(1e9 * seconds / stages.pipeline.microbatches);
    });
    return each;
  };
  times.forward = nanoseconds(Pass::forward);
  times.backward = nanoseconds(Pass::backward);
  times.weights = nanoseconds(Pass::weights);
  return times;
}

}  // namespace hidup
