// The instructions that every rank runs in a step, with the values they work on.
//
// One list for all ranks: instruction i is the same everywhere, only the parts of
// the values differ. Plain data that prints (print.h), is laid out in memory
// (memory.h) and is proven right (verify.h) before the first step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "sharding/placement.h"

namespace hidup {

enum class StreamKind { compute, comm };
inline constexpr int kStreams = 2;

enum class Phase { forward, backward, update };

// What an instruction does. Operands in this order:
enum class Opcode {
  embedding,                      // tokens, table -> y
  embedding_backward,             // tokens, dy -> dtable
  positions,                      // x -> y
  matmul,                         // x, weight -> y
  matmul_bias,                    // x, weight, bias -> y; these three: fuse_epilogues()
  matmul_bias_relu,               // x, weight, bias -> y
  matmul_bias_gelu,               // x, weight, bias -> y, gelu's input
  matmul_backward_input,          // dy, weight -> dx
  matmul_backward_weight,         // x, dy -> dweight
  bias,                           // x, bias -> y
  bias_backward,                  // dy -> dbias
  relu,                           // x -> y
  relu_backward,                  // y, dy -> dx
  gelu,                           // x -> y
  gelu_backward,                  // x, dy -> dx
  dropout,                        // x -> y, and dy -> dx with the same mask
  add,                            // a, b -> y
  layer_norm,                     // x, weight, bias -> y, mean, rstd
  residual_norm,                  // branch, residual, weight, bias -> y, their sum, mean, rstd
  layer_norm_backward,            // x, weight, mean, rstd, dy -> dx, dweight, dbias
  attention,                      // qkv -> y, lse
  attention_backward,             // qkv, y, lse, dy -> dqkv
  cross_entropy,                  // logits, targets -> loss, lse
  cross_entropy_stats,            // logits, targets -> stats, of a part of the classes
  cross_entropy_merge,            // stats of all parts -> loss, lse
  cross_entropy_backward,         // logits, targets, lse -> dlogits
  route,                          // logits -> routing
  expert_load,                    // routing -> load
  gate,                           // logits, routing -> weights
  gate_backward,                  // logits, routing, dweights -> dlogits
  expert_counts,                  // routing -> counts
  dispatch,                       // x, routing -> buffer
  dispatch_backward,              // routing, dbuffer -> dx
  expert_matmul,                  // x, weight, counts -> y
  expert_matmul_backward_input,   // dy, weight, counts -> dx
  expert_matmul_backward_weight,  // x, dy, counts -> dweight
  expert_bias,                    // x, bias, counts -> y
  expert_bias_backward,           // dy, counts -> dbias
  combine,                        // buffer, routing, weights -> y
  combine_backward,               // buffer, routing, weights, dy -> dbuffer, dweights
  // From one layout to another (sharding/reshard.h), along Instruction::axis:
  // values -> values, then the buffers that the messages need.
  slice,
  place,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  convert,       // values -> the same of another floating type, rounded
  squared_norm,  // gradients -> sum of squares
  clip_scale,    // sum of squares -> norm, scale
  adam,          // per parameter: parameter (f32), gradient, m, v; then scale -> parameters, m, v
};
std::string_view name_of(Opcode opcode);
std::string_view name_of(StreamKind stream);
std::string_view name_of(Phase phase);
// Empty for instructions that do not communicate.
std::string_view collective_of(Opcode opcode);
// Whether it changes layouts: the communicating ones, slice and place.
bool is_reshard(Opcode opcode);

using ValueId = int32_t;

// A tensor that the program keeps in the arena: a global shape, and the part of
// it that every rank holds.
struct Value {
  // A result is what the host reads after the step.
  enum class Role { input, parameter, gradient, optimizer_state, result, activation };
  std::string name;
  Role role = Role::activation;
  DType dtype = DType::f32;
  Shape shape;  // global; of a microbatch where it is split
  Layout layout;
  BatchPart batch = {};
  // A buffer for messages instead: as large as the parts of these values together.
  std::vector<ValueId> holds = {};
  Init init;               // parameters
  ValueId master_of = -1;  // optimizer state that is a parameter of 16 bits in f32: of which
  bool decay = false;      // parameters: weight decay applies

  // Keeps its memory from step to step.
  bool persistent() const { return role != Role::activation; }
};

struct Instruction {
  Opcode opcode = Opcode::add;
  std::string name;
  StreamKind stream = StreamKind::compute;
  Phase phase = Phase::forward;
  int microbatch = -1;  // -1: belongs to none
  int stage = 0;        // of its pass, counted from the pass's start (duplex.cpp)
  int axis = -1;        // of the mesh, for what changes a layout
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;  // one that is also an input is updated in place
  bool accumulate = false;       // adds to its outputs instead of overwriting them; see adds_to()
  std::string purpose;           // dropout: names its stream of random numbers
  Attributes attributes;
  // Instructions of the other stream that must be done before; each is an event
  // that its stream records and this one waits for.
  std::vector<int> waits;
  double flops = 0.0;  // of rank 0
  double bytes = 0.0;  // of rank 0: moved, or communicated
};

// Whether the instruction adds to that output: one that accumulates does so to sums (gradients of
// parameters, the loss), not to what it writes beside them.
bool adds_to(const Instruction& instruction, size_t output);

struct Program {
  std::string name;
  Mesh mesh;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  // What the trainer fills, looks at and writes down.
  std::vector<ValueId> tokens, targets;  // one in every layout that is needed
  ValueId loss = -1, gradient_norm = -1;
  std::vector<ValueId> expert_loads;  // f32 [2, experts] per MoE layer: tokens, and dropped ones

  const Value& value(ValueId id) const { return values.at(static_cast<size_t>(id)); }
  // The part of the value that the rank holds.
  Region region(ValueId id, int64_t rank) const;
  Shape local_shape(ValueId id, int64_t rank) const;
  int64_t local_bytes(ValueId id, int64_t rank) const;
};

}  // namespace hidup
