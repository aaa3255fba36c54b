// The record of every opcode: operands, what it computes and moves, and how its backward pass goes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "graph/graph.h"
#include "program/attributes.h"
#include "program/signature.h"
#include "sharding/reshard.h"

namespace hidup {

// What an instruction does; opcodes.cpp has their operands.
enum class Opcode {
  embedding,
  embedding_backward,
  positions,
  rotary,
  rotary_backward,
  prepend,
  prepend_backward,
  first,
  first_backward,
  matmul,
  matmul_bias,  // these three: fuse_epilogues()
  matmul_bias_relu,
  matmul_bias_gelu,
  matmul_backward_input,
  matmul_backward_input_gelu,  // fuse_backward()
  matmul_backward_weight,
  matmul_backward_weight_bias,  // fuse_backward()
  bias,
  bias_backward,
  relu,
  relu_backward,
  gelu,
  gelu_backward,
  silu,
  silu_backward,
  swiglu,
  swiglu_backward,
  dropout,
  add,
  layer_norm,
  residual_norm,  // fuse_residual_norms()
  layer_norm_backward,
  layer_norm_backward_add,  // fuse_backward()
  rms_norm,
  residual_rms_norm,  // fuse_residual_norms()
  rms_norm_backward,
  rms_norm_backward_add,  // fuse_backward()
  attention,
  attention_backward,
  grouped_attention,
  grouped_attention_backward,
  cross_entropy,
  cross_entropy_stats,  // these two: of a part of the classes (cross_entropy.h)
  cross_entropy_merge,
  cross_entropy_backward,
  route,
  expert_load,
  router_sums,  // these two: a router's own losses (router_losses.h)
  router_losses_backward,
  gate,
  gate_backward,
  expert_counts,
  dispatch,
  dispatch_backward,
  expert_matmul,
  expert_matmul_backward_input,
  expert_matmul_backward_weight,
  expert_bias,
  expert_bias_backward,
  combine,
  combine_backward,
  // From one layout to another (sharding/reshard.h), along Instruction::axis: values -> values,
  // then the buffers that the messages need.
  slice,
  place,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  move,
  convert,  // to another floating type, rounded
  squared_norm,
  clip_scale,
  adam,
  adam_rounded,  // of masters, and the parameters made of them
};

// What an instruction of the backward pass takes from the forward pass.
struct BackwardOperand {
  enum class From { input, output, saved, output_gradient };
  From from = From::input;
  size_t index = 0;  // of inputs and of saved values
};

// A step of the backward pass of an operation: an instruction, and the inputs whose gradients it
// writes, in the order of its outputs. Without an opcode the output's gradient is the input's.
struct BackwardStep {
  std::optional<Opcode> opcode;
  std::vector<BackwardOperand> operands;
  std::vector<size_t> gradients_of;
};

struct OpcodeSpec {
  using Shapes = std::span<const Shape>;

  Opcode opcode;
  std::string_view name;
  Signature signature;
  InstructionAttributes attributes;  // with defaults
  // Of a rank's parts, a multiply-add as two.
  double (*flops)(const InstructionAttributes& attributes, Shapes in, Shapes out);
  // What else its speed depends on; see Work::sizes.
  std::vector<int64_t> (*sizes)(const InstructionAttributes& attributes, Shapes in, Shapes out);
  bool product = false;                // its time grows with its flops rather than with its bytes
  bool one_piece = false;              // several inputs lie in memory one behind the other
  bool random = false;                 // draws random numbers (Instruction::purpose)
  std::optional<Opcode> fuses;         // the one which it does together with what follows
  std::optional<OpKind> operation;     // the one of which it is the forward pass
  std::vector<BackwardStep> backward;  // of that operation, in this order
  std::optional<ReshardKind> reshard;
};

const OpcodeSpec& spec_of(Opcode opcode);
std::span<const OpcodeSpec> all_opcodes();

std::string_view name_of(Opcode opcode);
// Empty for instructions that do not communicate.
std::string_view collective_of(Opcode opcode);
// Whether it changes layouts: the communicating ones, slice and place.
bool is_reshard(Opcode opcode);
bool is_product(Opcode opcode);
Opcode opcode_of(ReshardKind kind);
// The first opcode that does that one together with something else.
std::optional<Opcode> fusing(Opcode opcode);

// The record of an operation's forward pass, which has its backward pass.
const OpcodeSpec& forward_of(OpKind kind);
// The attributes of an instruction with that opcode which belongs to the operation: the
// operation's where it takes those, otherwise its defaults.
InstructionAttributes attributes_of(Opcode opcode, const Op& op);
// Whether the backward pass of an operation reads its input i, or its output.
bool backward_needs_input(OpKind kind, size_t input);
bool backward_needs_output(OpKind kind);
// Per tensor: how many operations read it in their backward pass; the one that wrote it counts,
// too.
std::vector<int> backward_reads(const Graph& graph);
// Whether a gradient that the step of the operation's backward pass writes is asked for: data have
// none.
bool is_needed(const BackwardStep& step, const Graph& graph, const Op& op);
// The input over which the forward pass may write its output; -1: none.
int overwritten_input(OpKind kind);

}  // namespace hidup
