// The strategy "pipeline": contiguous stages along an axis.
#pragma once

#include <vector>

#include "sharding/strategy.h"

namespace hidup {

// Divides the operations, in graph order, into so many chunks of about equal flops: the largest is
// as small as can be. Chunks end where as few activations as possible pass on, which is behind a
// block of a transformer. Returns the chunk of every operation. Throws Error(usage) for more chunks
// than the graph has places to cut.
std::vector<int> divide_in_chunks(const Graph& graph, int chunks);

// Returns the strategy with the operations on the stages of that schedule along its axis, and each
// parameter where its first reader is. `schedule`: a named or custom one, without cuts; its
// microbatches are the strategy's groups. Throws Error(usage) for a schedule that so many stages
// cannot have.
Strategy with_stages(const Graph& graph, Strategy strategy, const StageSchedule& schedule);

}  // namespace hidup
