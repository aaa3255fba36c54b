// The stages of a pipeline, and the order in which they work.
//
// A pipeline is an axis of the mesh on which every operation computes on some ranks only, such as
// replicate@2. Operations on the same ranks form a device of the pipeline. Its operations between
// those of other devices form a chunk, so a device may have several.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/simulate.h"
#include "sharding/stage_schedule.h"

namespace hidup {

struct Strategy;

struct Stages {
  // Groups of the strategy are the pipeline's microbatches. Without a schedule there is one device
  // with one chunk.
  pipeline::Pipeline pipeline;
  std::vector<int> chunk_of;                      // per operation
  std::vector<std::vector<int64_t>> coordinates;  // per device: on the axis, rising
};

// Returns the stages of the strategy. Chunks and devices are numbered as the forward pass reaches
// them. Throws Error(usage) for an operation that computes on all ranks of the axis, or on some of
// the ranks of two devices.
Stages stages_of(const Graph& graph, const Strategy& strategy);

// Returns the proven order of the stages' tasks. Times of the chunks that the order depends on are
// in proportion to their flops. Throws Error(usage) where the name cannot order these stages, or
// the custom schedule is wrong.
pipeline::Schedule schedule_of(const Graph& graph, const Strategy& strategy, const Stages& stages);

// A slot of a device.
struct StageSlot {
  int device = 0;
  std::vector<pipeline::Task> tasks;  // not empty
};

// Returns the slots of all devices in one order, which is that of every device and in which each
// task follows the task that it needs; of independent slots the one that starts first comes first.
std::vector<StageSlot> slots_in_order(const Graph& graph, const Stages& stages,
                                      const pipeline::Schedule& schedule);
// Returns the flops of each chunk's forward pass, on a rank of its device.
std::vector<double> flops_of_chunks(const Graph& graph, const Stages& stages);
// Returns times in proportion to the chunks' flops; the longest forward pass takes a millisecond.
pipeline::Times times_by_flops(const Graph& graph, const Stages& stages);
// Returns slots_in_order() for forward passes alone.
std::vector<StageSlot> forward_slots(const Stages& stages);

}  // namespace hidup
