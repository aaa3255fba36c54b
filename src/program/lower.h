// Graph and strategy -> program: of a training step, or of the forward pass alone.
//
// lower.cpp runs these passes on a ProgramBuilder, in this order. Parameters: values that last,
// and buckets of parameters to gather. Forward: each operand in the layout that the rule wants.
// Results: sums over the ranks of what the host reads. Gradients: where a parameter's gradient is
// summed, and its buckets; as soon as the backward pass has filled a bucket, its collective is
// written (with Strategy::defer_gradients all of them after the pass). Backward: the steps that
// the forward opcode of each operation declares, last operation first; before each what it reads
// and the forward pass has not kept (again.h). Update: the norm of the gradients, and Adam bucket
// by bucket. Each pass is written once per microbatch; the lists are woven stage by stage, so that
// one microbatch computes while another communicates. Then instructions are fused (the forward
// pass before the backward pass is written, which may repeat it), long rows are padded, waits are
// inserted, and the work of every instruction is counted.
#pragma once

#include <functional>
#include <optional>

#include "program/program.h"
#include "sharding/routes.h"
#include "sharding/strategy.h"

namespace hidup {

struct LoweringOptions {
  int64_t bucket_bytes = int64_t{4} << 20;  // gradients are sent in pieces of at least this
  DType gradients_as = DType::f32;          // in which sums of them over ranks are sent
  double clip_norm = 0.0;                   // of the global gradient norm; 0: no clipping
  AdamAttributes optimizer;
  bool fuse = true;  // what follows directly becomes one instruction (fuse.h)
  bool pad = true;   // long rows begin at aligned addresses (padded_rows.h)
};

// The training step. Pure: the same input gives the same program on every rank.
Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options);

// How values are sent.
struct Sending {
  bool several = false;               // together, so that messages are packed and unpacked
  std::optional<DType> sums_as = {};  // Instruction::sent_as of sums

  bool operator==(const Sending&) const = default;
};

// A reshard that lower() is about to write, of values that go together.
struct RouteDemand {
  const Value& value;  // the first one, as it lies before
  const Layout& to;    // another layout than the value's
  double bytes = 0.0;  // of all, as RouteChoice counts them
  Sending how = {};
};
// Returns one of reshard_routes(), and the same one for equal layouts and bytes.
using RouteChooser = std::function<Route(const RouteDemand&)>;

// The training step of the strategy with other routes than its own: those that the chooser takes.
// Demands do not depend on the routes taken.
Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
              const RouteChooser& choose);

struct ForwardOptions {
  // The input of the loss is a result, Program::logits. The batch then is one piece, whatever
  // microbatches the strategy has.
  bool keep_logits = false;
};

// The forward pass alone: no gradients, no optimizer state, no operations that only training has
// (OperationSpec::training_only). Memory is that of a pass whose activations nobody reads later.
// The results are the loss and the experts' loads, summed over the ranks as in training.
Program lower_forward(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                      const ForwardOptions& forward = {});

// Fills Instruction::waits: every instruction waits for what it depends on in the
// other stream, unless an earlier wait already covers it.
void insert_waits(Program& program);

// Fills Instruction::beside_messages, by streams and waits.
void mark_beside_messages(Program& program);

}  // namespace hidup
