// Graph and strategy -> program: backward pass, gradient buckets, update, events.
#pragma once

#include "program/program.h"
#include "sharding/strategy.h"

namespace hidup {

struct LoweringOptions {
  int64_t bucket_bytes = int64_t{4} << 20;  // gradients are sent in pieces of at least this
  double clip_norm = 0.0;                   // of the global gradient norm; 0: no clipping
  AdamAttributes optimizer;
  bool fuse = true;  // what follows directly becomes one instruction (fuse.h)
};

// The training step. Pure: the same input gives the same program on every rank.
Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options);

// Fills Instruction::waits: every instruction waits for what it depends on in the
// other stream, unless an earlier wait already covers it.
void insert_waits(Program& program);

}  // namespace hidup
