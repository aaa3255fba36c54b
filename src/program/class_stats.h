// A cross-entropy whose classes are cut: for lower(), and for who counts its costs without a
// program.
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// Where the classes of a cross-entropy are cut, ranks exchange so many numbers per target
// (kernels/cross_entropy.h).
inline constexpr int64_t kClassStats = 3;

// The layouts of these numbers, f32 [parts, batch, .., kClassStats]: as a rank makes them, and as
// it needs them.
struct ClassStats {
  int64_t parts = 1;  // 1: the classes are not cut
  Layout made, needed;
};
ClassStats class_stats(const Graph& graph, OpId op, const OpStrategy& rules, const Mesh& mesh);

}  // namespace hidup
