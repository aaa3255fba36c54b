// The record of every opcode: operands, work, and backward pass.
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

// The operation of an instruction; opcodes.cpp has the operands of each.
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
  matmul_bias,  // fuse_epilogues() makes these three
  matmul_bias_relu,
  matmul_bias_gelu,
  matmul_backward_input,
  matmul_backward_input_gelu,  // fuse_backward()
  matmul_backward_weight,
  matmul_backward_weight_bias,  // fuse_backward()
  wide_matmul,                  // a product that is not rounded; its backward pass is matmul's
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
  cross_entropy_stats,  // these two work on a part of the classes (cross_entropy.h)
  cross_entropy_merge,
  cross_entropy_backward,
  route,
  route_biased,
  route_chosen,
  expert_load,
  router_sums,  // these two compute a router's own losses (router_losses.h)
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
  round_counts,
  expert_pack,  // these four are dispatch and combine for packed rows (Value::packed)
  expert_pack_backward,
  expert_unpack,
  expert_unpack_backward,
  // These change layouts along Instruction::axis (sharding/reshard.h): values -> values, then the
  // message buffers.
  slice,
  place,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  move,
  convert,  // rounds to another floating type
  squared_norm,
  clip_scale,
  adam,
  adam_rounded,  // updates masters, and the parameters rounded from them
  move_router_bias,
};

// An operand of the backward pass that comes from the forward pass.
struct BackwardOperand {
  enum class From { input, output, saved, output_gradient };
  From from = From::input;
  size_t index = 0;  // among the inputs or the saved values
};

// A step of an operation's backward pass: an instruction, and the inputs whose gradients are its
// outputs, in order. Without an opcode, the input's gradient is the output's gradient.
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
  InstructionAttributes attributes;  // the defaults
  // Counts flops on a rank's parts; a multiply-add counts as two.
  double (*flops)(const InstructionAttributes& attributes, Shapes in, Shapes out);
  // Returns the other sizes that the speed depends on; see Work::sizes.
  std::vector<int64_t> (*sizes)(const InstructionAttributes& attributes, Shapes in, Shapes out);
  bool product = false;                // the time grows with the flops rather than with the bytes
  bool one_piece = false;              // several inputs lie in memory one after the other
  bool random = false;                 // draws random numbers (Instruction::purpose)
  std::optional<Opcode> fuses;         // the opcode that this one does together with others
  std::optional<OpKind> operation;     // the operation whose forward pass this is
  std::vector<BackwardStep> backward;  // steps of that operation's backward pass, in order
  std::optional<ReshardKind> reshard;
};

const OpcodeSpec& spec_of(Opcode opcode);
std::span<const OpcodeSpec> all_opcodes();

std::string_view name_of(Opcode opcode);
// Returns an empty name for instructions that do not communicate.
std::string_view collective_of(Opcode opcode);
// Returns true for opcodes that change layouts: collectives, slice and place.
bool is_reshard(Opcode opcode);
bool is_product(Opcode opcode);
Opcode opcode_of(ReshardKind kind);
// Returns the first opcode that does the given one together with others.
std::optional<Opcode> fusing(Opcode opcode);

// Returns the record of an operation's forward pass, which contains its backward pass.
const OpcodeSpec& forward_of(OpKind kind);
// Returns the operation's attributes where the opcode takes attributes of that kind, otherwise the
// opcode's defaults.
InstructionAttributes attributes_of(Opcode opcode, const Op& op);
// Returns true where the operation's backward pass reads the input, or the output.
bool backward_needs_input(OpKind kind, size_t input);
bool backward_needs_output(OpKind kind);
// Returns, per tensor, the number of operations whose backward pass reads it, including the
// operation that wrote it.
std::vector<int> backward_reads(const Graph& graph);
// Returns true where the step writes a gradient that is needed; input data need none.
bool is_needed(const BackwardStep& step, const Graph& graph, const Op& op);
// Returns the input that the forward pass may overwrite with its output; -1: none.
int overwritten_input(OpKind kind);

}  // namespace hidup
