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
  embedding,               // tokens, table -> y
  embedding_backward,      // tokens, dy -> dtable
  positions,               // x -> y
  matmul,                  // x, weight -> y
  matmul_backward_input,   // dy, weight -> dx
  matmul_backward_weight,  // x, dy -> dweight
  bias,                    // x, bias -> y
  bias_backward,           // dy -> dbias
  relu,                    // x -> y
  relu_backward,           // y, dy -> dx
  dropout,                 // x -> y, and dy -> dx with the same mask
  add,                     // a, b -> y
  layer_norm,              // x, weight, bias -> y, mean, rstd
  layer_norm_backward,     // x, weight, mean, rstd, dy -> dx, dweight, dbias
  attention,               // qkv -> y, lse
  attention_backward,      // qkv, y, lse, dy -> dqkv
  cross_entropy,           // logits, targets -> loss, lse
  cross_entropy_backward,  // logits, targets, lse -> dlogits
  all_reduce,              // values -> the same values, summed over all ranks
  squared_norm,            // gradients -> sum of squares
  clip_scale,              // sum of squares -> norm, scale
  adam,  // per parameter: parameter, gradient, m, v; then scale -> parameters, m, v
};
std::string_view name_of(Opcode opcode);
std::string_view name_of(StreamKind stream);
std::string_view name_of(Phase phase);
// Empty for instructions that do not communicate.
std::string_view collective_of(Opcode opcode);

using ValueId = int32_t;

// A tensor that the program keeps in the arena: a global shape, and the part of
// it that every rank holds.
struct Value {
  // A result is what the host reads after the step.
  enum class Role { input, parameter, gradient, optimizer_state, result, activation };
  std::string name;
  Role role = Role::activation;
  DType dtype = DType::f32;
  Shape shape;  // global
  Layout layout;
  Init init;           // parameters
  bool decay = false;  // parameters: weight decay applies

  // Keeps its memory from step to step.
  bool persistent() const { return role != Role::activation; }
};

struct Instruction {
  Opcode opcode = Opcode::add;
  std::string name;
  StreamKind stream = StreamKind::compute;
  Phase phase = Phase::forward;
  int microbatch = -1;  // -1: belongs to none
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;  // one that is also an input is updated in place
  bool accumulate = false;       // adds to its outputs instead of overwriting them
  std::string purpose;           // dropout: names its stream of random numbers
  Attributes attributes;
  // Instructions of the other stream that must be done before; each is an event
  // that its stream records and this one waits for.
  std::vector<int> waits;
  double flops = 0.0;  // of rank 0
  double bytes = 0.0;  // of rank 0: moved, or communicated
};

struct Program {
  std::string name;
  Mesh mesh;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  // What the trainer looks at.
  ValueId tokens = -1, targets = -1, loss = -1, gradient_norm = -1;

  const Value& value(ValueId id) const { return values.at(static_cast<size_t>(id)); }
  Shape local_shape(ValueId id, int64_t rank) const;
  int64_t local_bytes(ValueId id, int64_t rank) const;
};

}  // namespace hidup
