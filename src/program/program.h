// The instructions that every rank runs in a step, with the values they work on.
//
// One list for all ranks: instruction i is the same everywhere, only the parts of
// the values differ. Plain data that prints (print.h), is laid out in memory
// (memory.h) and is proven right (verify.h) before the first step.
//
// A rank skips an instruction of which it has no part (skips()), and a collective is done by the
// ranks that it concerns (Instruction::group). Events and waits stay, so the order of all others
// does. An instruction knows its operation, its input, its bucket, its microbatch and its stage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/collective_algorithm.h"
#include "graph/graph.h"
#include "program/opcodes.h"
#include "sharding/placement.h"

namespace hidup {

enum class StreamKind { compute, comm };
inline constexpr int kStreams = 2;

enum class Phase { forward, backward, update };

std::string_view name_of(StreamKind stream);
std::string_view name_of(Phase phase);

using ValueId = int32_t;

// Values begin at multiples of so many bytes of the arena.
inline constexpr int64_t kValueAlignment = 64;

// Padded rows begin at multiples of so many elements: in 16 bits, of a GPU's lines of 128 bytes.
inline constexpr int64_t kRowMultiple = 64;

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
  // Axes, outermost first: of a buffer of a hierarchical all-to-all, which holds what the rank
  // sends, passes on or receives. `holds` has the values that it sends and then as many that it
  // receives; the buffer has room for the largest of the three.
  std::vector<size_t> exchanged_along = {};
  // Axes, outermost first: of the buffer of a sum whose summands are sent in fewer bits
  // (Instruction::sent_as). `holds` has the summands and then as many sums; see summed_elements().
  std::vector<size_t> summed_along = {};
  Init init;                 // parameters
  ValueId gradient_of = -1;  // gradients: of which parameter
  ValueId master_of = -1;    // optimizer state that is a parameter of 16 bits in f32: of which
  bool decay = false;        // parameters: weight decay applies
  bool padded_rows = false;  // activations: see row_stride()

  // Keeps its memory from step to step.
  bool persistent() const { return role != Role::activation; }
};

struct Instruction {
  Opcode opcode = Opcode::add;
  std::string name;
  StreamKind stream = StreamKind::compute;
  Phase phase = Phase::forward;
  int microbatch = -1;  // numbered through all groups (Strategy::accumulate); -1: belongs to none
  int stage = 0;        // of its pass, counted from the pass's start (duplex.cpp)
  int axis = -1;        // of the mesh, for what changes a layout
  // Further axes, outermost first, of a joint collective (ReshardStep::inner).
  std::vector<int> inner_axes = {};
  bool flat = false;  // ReshardStep::flat
  // How a collective is done: each of its message_parts(). Empty: all as is automatic.
  std::vector<CollectiveAlgorithm> algorithms = {};
  // The type in which a sum of f32 elements sends its summands, and an all-reduce the sum; each
  // rank adds in f32. Nothing: the messages have the elements as they are.
  std::optional<DType> sent_as = {};
  // Coordinates on the axis of the ranks that a collective concerns, rising; empty: all of it.
  std::vector<int64_t> group = {};
  OpId op = -1;    // of the graph; -1: belongs to none
  int input = -1;  // of that operation: whose layout or whose gradient it makes
  // Of parameters (in the forward pass, in the update and where they are gathered again) or of
  // gradients (in the backward pass): its number.
  int bucket = -1;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;  // one that is also an input is updated in place
  // Values whose uses before this instruction in the list must be done before it: their memory is
  // free then.
  std::vector<ValueId> after_uses_of = {};
  // Of the backward pass: does what the forward pass did already.
  bool again = false;
  bool accumulate = false;  // adds to its outputs instead of overwriting them; see adds_to()
  std::string purpose;      // dropout: names its stream of random numbers
  InstructionAttributes attributes;  // of the kind that the opcode's record has
  // Instructions of the other stream that must be done before; each is an event
  // that its stream records and this one waits for.
  std::vector<int> waits;
  bool beside_messages = false;  // computation: a collective may be under way meanwhile
  double flops = 0.0;            // of rank 0
  double bytes = 0.0;            // of rank 0: moved, or communicated

  // `Kind`: those of the opcode's record.
  template <typename Kind>
  const Kind& as() const {
    return std::get<Kind>(attributes);
  }
};

// Whether the instruction adds to that output: one that accumulates does so to sums (gradients of
// parameters, the loss), not to what it writes beside them.
bool adds_to(const Instruction& instruction, size_t output);

// What a router's own losses are computed from, f32 [3, experts] (kernels/router_losses.h).
struct RouterSums {
  ValueId value = -1;
  RouterLossAttributes losses;
};

// Elements in the buffer of a sum that is sent in fewer bits (Value::summed_along), on one rank.
struct SummedElements {
  int64_t rounded = 0;   // the summands that it sends, one behind the other; then the sum
  int64_t received = 0;  // behind them: summands from the ranks of one axis, at most
};

struct Program {
  std::string name;
  Mesh mesh;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  // What the trainer fills, looks at and writes down.
  std::vector<ValueId> tokens, targets, images;  // one in every layout that is needed
  ValueId loss = -1;  // f32 [2]: the loss, and the fraction of targets with the largest logit
  ValueId gradient_norm = -1;
  ValueId logits = -1;                  // the input of the loss, f32 and replicated; -1: not kept
  std::vector<ValueId> expert_loads;    // f32 [2, experts] per MoE layer: tokens, and dropped ones
  std::vector<RouterSums> router_sums;  // per MoE layer whose router has losses of its own

  const Value& value(ValueId id) const { return values.at(static_cast<size_t>(id)); }
  // Whether the rank has a part of the value, which may still be empty.
  bool lies_on(ValueId id, int64_t rank) const;
  // The part of the value that the rank holds.
  Region region(ValueId id, int64_t rank) const;
  Shape local_shape(ValueId id, int64_t rank) const;
  // What it takes in memory.
  int64_t local_bytes(ValueId id, int64_t rank) const;
  // Of a buffer with summed_along.
  SummedElements summed_elements(const Value& buffer, int64_t rank) const;
  // Elements of the rank's part from the start of a row, which is its last dimension, to that of
  // the next: where rows are padded, the row's length rounded up to kRowMultiple.
  int64_t row_stride(ValueId id, int64_t rank) const;

 private:
  int64_t held_bytes(std::span<const ValueId> held, int64_t rank) const;
  int64_t exchanged_bytes(const Value& buffer, int64_t rank) const;
  int64_t largest_part(ValueId whole, ValueId part, const std::vector<size_t>& axes,
                       int64_t rank) const;
  int64_t elements_wanted(const Region& box, const Value& of, size_t axis, int64_t rank) const;
};

// Whether shares other than equal ones and those of the first ranks are in use.
bool has_unequal_parts(const Program& program);
// Ranks that stand for all, because every other rank has the parts of one of them, or one element
// more or less: the first and the last rank. Where parts are unequal, the ranks of which the
// coordinate on each axis is the first or the last of those with the same weights.
std::vector<int64_t> distinct_ranks(const Program& program);
// The same for all that may lie on a mesh by its shares; the first rank where it has none.
std::vector<int64_t> distinct_ranks(const Mesh& mesh);

// Whether the rank leaves the instruction out: a collective if it does not concern the rank,
// anything else if no output has a part on it. It still waits and is waited for, so the order of
// all others is kept.
bool skips(const Program& program, const Instruction& instruction, int64_t rank);

// The instruction is a joint collective made of collectives along fewer axes.
bool is_hierarchical(const Instruction& instruction);
// The instruction is an all-to-all along several axes.
bool is_joint_exchange(const Instruction& instruction);

// Whether the instruction's axis, or one of its inner axes, is that one.
bool works_along(const Instruction& instruction, size_t axis);

// Bytes of an element in the messages of a collective, over those of an element of its values.
double sent_part(const Program& program, const Instruction& instruction);

// The ranks that take part in a collective together with this one, which does not skip it, in the
// order of the collective's axis; those that differ on an inner axis only lie furthest apart. Along
// the inner axes together the ranks of a joint all-to-all rise; all those of a flat collective do.
std::vector<int64_t> collective_group(const Program& program, const Instruction& instruction,
                                      int64_t rank);

// The floating type T of an instruction: that of its operands of 16 bits, f32 where it has none.
DType element_dtype(const Program& program, const Instruction& instruction);

}  // namespace hidup
