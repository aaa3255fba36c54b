// Translates a graph and a strategy to the program of a training step or of a forward pass.
//
// lower.cpp runs these passes on a ProgramBuilder, in this order. Parameters: values that last, and
// buckets of parameters to gather. Forward: each operand in the layout that the rule wants.
// Results: sums over the ranks of the numbers that the host reads. Gradients: the sums of a
// parameter's gradient, and its buckets; as soon as the backward pass has filled a bucket, its
// collective is written (with Strategy::defer_gradients all of them after the pass). Backward: the
// steps that the forward opcode of each operation declares, last operation first; before each, the
// values that it reads and the forward pass has freed (recompute.h). Update: the norm of the
// gradients, and Adam bucket by bucket. Each pass is written once per microbatch; the lists are
// woven stage by stage, so that one microbatch computes while another communicates. Then
// instructions are fused (the forward pass before the backward pass is written, which may repeat
// it), long rows are padded, waits are inserted, and the work of every instruction is counted.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "program/program.h"
#include "sharding/routes.h"
#include "sharding/strategy.h"

namespace hidup {

struct LoweringOptions {
  int64_t bucket_bytes = int64_t{4} << 20;  // least size of a bucket of gradients
  DType gradients_as = DType::f32;          // dtype in which sums of gradients over ranks are sent
  double clip_norm = 0.0;                   // limit of the global gradient norm; 0: no clipping
  AdamAttributes optimizer;
  bool fuse = true;  // fuse consecutive instructions (fuse.h)
  bool pad = true;   // align the starts of long rows (padded_rows.h)
};

// Returns the training step. Pure: the same input gives the same program on every rank.
Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options);

// The way in which values are sent.
struct Sending {
  bool several = false;  // several values together, so messages are packed and unpacked
  std::optional<DType> sums_as = {};  // Instruction::sent_as of sums

  bool operator==(const Sending&) const = default;
};

// A reshard, of one or more values together, that lower() is about to write.
struct RouteDemand {
  const Value& value;  // the first value, in its layout before the reshard
  const Layout& to;    // differs from the value's layout
  double bytes = 0.0;  // of all values, as RouteChoice counts them
  Sending how = {};
};
// Returns one of reshard_routes(), and the same one for equal layouts and bytes.
using RouteChooser = std::function<Route(const RouteDemand&)>;

// Returns the training step with the chooser's routes. Demands do not depend on the routes taken.
Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
              const RouteChooser& choose);

struct ForwardOptions {
  // Makes the loss's input a result, Program::logits. The batch then has one microbatch, whatever
  // the strategy says.
  bool keep_logits = false;
};

// Returns the forward pass alone: no gradients, no optimizer state, no training-only operations
// (OperationSpec::training_only). Activations are freed after their last use in the pass. The
// results are the loss and the experts' loads, summed over the ranks as in training.
Program lower_forward(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                      const ForwardOptions& forward = {});

// Sets Instruction::waits: on each rank, every instruction waits for those of other streams that it
// depends on, unless an earlier wait already covers them. `also`: per instruction, earlier ones
// that it waits for besides; empty: none.
void insert_waits(Program& program, const std::vector<std::vector<int>>& also = {});

// Sets Instruction::beside_messages by streams and waits.
void mark_beside_messages(Program& program);

}  // namespace hidup
