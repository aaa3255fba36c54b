// A cross-entropy whose classes are cut: for lower(), and for cost estimates without a program.
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// Numbers per target that ranks exchange where classes are cut (kernels/cross_entropy.h).
inline constexpr int64_t kClassStats = 3;

// The layouts of these numbers, f32 [parts, batch, .., kClassStats], as made and as needed.
struct ClassStats {
  int64_t parts = 1;  // 1: the classes are not cut
  Layout made, needed;
};
ClassStats class_stats(const Graph& graph, OpId op, const OpStrategy& rules, const Mesh& mesh);

}  // namespace hidup
