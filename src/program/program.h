// The instructions that every rank runs in a step, with the values they work on.
//
// All ranks have one list: instruction i is the same everywhere, and only the parts of the values
// differ. A program is plain data. It is printed (print.h), laid out in memory (memory.h) and
// verified (verify.h) before the first step.
//
// A rank skips an instruction of which it has no part (skips()), with its waits, and no instruction
// waits there for a skipped one. The ranks concerned do a collective (Instruction::group). An
// instruction knows its operation, its input, its bucket, its microbatch and its stage.
#pragma once

#include <array>
#include <bit>
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

// Each rank has one stream that computes, and others that communicate: `down` carries values of the
// forward pass between the stages of a pipeline, `up` gradients, and `comm` everything else. So a
// message that waits for another stage holds up nothing else.
enum class StreamKind { compute, comm, down, up };
inline constexpr int kStreams = 4;
inline constexpr std::array<StreamKind, kStreams> kAllStreams = {
    StreamKind::compute, StreamKind::comm, StreamKind::down, StreamKind::up};
inline bool communicates(StreamKind stream) {
  return stream != StreamKind::compute;
}
inline bool between_stages(StreamKind stream) {
  return stream == StreamKind::down || stream == StreamKind::up;
}

enum class Phase { forward, backward, update };

std::string_view name_of(StreamKind stream);
std::string_view name_of(Phase phase);

using ValueId = int32_t;

// Values begin at multiples of this number of bytes in the arena.
inline constexpr int64_t kValueAlignment = 64;

// Padded rows begin at multiples of this number of elements: a GPU's line of 128 bytes in 16 bits.
inline constexpr int64_t kRowMultiple = 64;

// Rows of experts that lie packed (Tensor::counts). The shape of the value has the mean number of
// rows of an expert in a sequence; the number in use is data.
struct PackedRows {
  ValueId counts = -1;       // i32 [experts, batch], whole on every rank; -1: nobody needs it
  int64_t per_sequence = 0;  // most rows of all experts together in a sequence
  int64_t most = 0;          // most rows of an expert in a sequence
  int64_t first = 0;         // rows of each expert and sequence before these, in other rounds
  int64_t tokens = 0;        // most rows of an expert in a sequence, in all rounds
  bool all = true;           // every sequence has `per_sequence` rows: no round leaves some out
  ExpectedLoads loads = nullptr;
};

// Returns those of a tensor, without `counts`; nothing for a dense one.
std::optional<PackedRows> packed_rows_of(const Graph& graph, TensorId id);

// Adds to a key of equal costs all that costs of the rows depend on.
template <typename Key>
void add_packed_rows(Key& key, const std::optional<PackedRows>& rows) {
  key.add(rows.has_value());
  if (!rows) {
    return;
  }
  key.add(rows->per_sequence);
  key.add(rows->most);
  key.add(rows->all);
  key.add(rows->loads != nullptr);
  for (size_t e = 0; rows->loads && e < rows->loads->size(); ++e) {
    key.add(std::bit_cast<uint64_t>((*rows->loads)[e]));
  }
}

// A tensor in the arena: a global shape, and the part of it that every rank holds.
struct Value {
  // The host reads results after the step, and counts within it.
  enum class Role { input, parameter, gradient, optimizer_state, result, counts, activation };
  std::string name;
  Role role = Role::activation;
  DType dtype = DType::f32;
  Shape shape;  // global; the microbatch's shape for values of a microbatch
  Layout layout;
  BatchPart batch = {};
  // Not empty for a message buffer, which is as large as the parts of these values together.
  std::vector<ValueId> holds = {};
  // Axes, outermost first, of the hierarchical all-to-all that uses this buffer. The buffer holds
  // what the rank sends, forwards or receives, and has room for the largest of the three. `holds`
  // lists the values that the rank sends and then as many that it receives.
  std::vector<size_t> exchanged_along = {};
  // Axes, outermost first, of the sum that sends summands through this buffer in fewer bits
  // (Instruction::sent_as). `holds` lists the summands, then as many sums; see summed_elements().
  std::vector<size_t> summed_along = {};
  Init init;                 // for parameters
  ValueId gradient_of = -1;  // for gradients: the parameter
  ValueId master_of = -1;    // for the f32 copy (optimizer state) of a 16-bit parameter: that one
  bool decay = false;        // for parameters: weight decay applies
  bool padded_rows = false;  // for activations: see row_stride()
  std::optional<PackedRows> packed = {};

  // Returns true for a value that keeps its memory from step to step.
  bool persistent() const { return role != Role::activation; }
};

struct Instruction {
  Opcode opcode = Opcode::add;
  std::string name;
  StreamKind stream = StreamKind::compute;
  Phase phase = Phase::forward;
  int microbatch = -1;  // counted through all groups (Strategy::accumulate); -1: none
  int stage = 0;        // counted from the start of the pass (duplex.cpp)
  // Number of the slot in the order of a pipeline's slots (sharding/stages.h), or of the pass; -1:
  // none.
  int slot = -1;
  int axis = -1;  // mesh axis of an instruction that changes a layout
  // Further axes of a joint collective, outermost first (ReshardStep::inner).
  std::vector<int> inner_axes = {};
  bool flat = false;  // ReshardStep::flat
  // The algorithm of each of the collective's message_parts(). Empty: all are automatic.
  std::vector<CollectiveAlgorithm> algorithms = {};
  // The dtype in which a sum of f32 elements sends its summands, and an all-reduce also its sum.
  // Every rank adds in f32. Nothing: messages have the dtype of the values.
  std::optional<DType> sent_as = {};
  // Rising coordinates, on the axis, of the ranks in the collective; empty: all ranks of the axis.
  std::vector<int64_t> group = {};
  OpId op = -1;    // operation of the graph; -1: none
  int input = -1;  // the operation's input whose layout or gradient the instruction makes
  // Number of the bucket: of parameters in the forward pass, in the update and where they are
  // gathered again; otherwise of gradients in the backward pass.
  int bucket = -1;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;  // an output that is also an input is updated in place
  // The instruction takes over the memory of these values, so it waits for all uses of them before
  // it in the list.
  std::vector<ValueId> after_uses_of = {};
  // The backward pass repeats this instruction of the forward pass (recomputation or regather).
  bool recomputed = false;
  bool accumulate = false;  // adds to its outputs instead of overwriting them; see adds_to()
  std::string purpose;      // for dropout: names its stream of random numbers
  InstructionAttributes attributes;  // of the kind in the opcode's record
  // Instructions of other streams that must be done first. These streams record an event after
  // each, and this instruction waits for the events of those that the rank runs.
  std::vector<int> waits;
  bool beside_messages = false;  // for computation: a collective may run at the same time
  double flops = 0.0;            // on rank 0
  double bytes = 0.0;            // on rank 0: moved, or communicated

  // Returns the attributes as `Kind`, which has to be the kind in the opcode's record.
  template <typename Kind>
  const Kind& as() const {
    return std::get<Kind>(attributes);
  }
};

// Returns true where the instruction adds to the output. An accumulating instruction adds to its
// sums (gradients of parameters, the loss) and overwrites its other outputs.
bool adds_to(const Instruction& instruction, size_t output);

// The sums for a router's own losses, f32 [3, experts] (kernels/router_losses.h).
struct RouterSums {
  ValueId value = -1;
  RouterLossAttributes losses;
};

// Elements, on one rank, in the buffer of a sum that is sent in fewer bits (Value::summed_along).
struct SummedElements {
  int64_t rounded = 0;   // the summands that the rank sends, one after the other; later the sum
  int64_t received = 0;  // after those: the summands received from the ranks of one axis, at most
};

struct Program {
  std::string name;
  Mesh mesh;
  std::vector<Value> values;
  std::vector<Instruction> instructions;
  // The values that the trainer fills, reads and logs.
  // One value per layout in use; of choices, which have their input's name, also per layer.
  std::vector<ValueId> tokens, targets, images, choices;
  ValueId loss = -1;  // f32 [2]: the loss, and the fraction of targets with the largest logit
  ValueId gradient_norm = -1;
  ValueId logits = -1;  // the loss's input, f32 and replicated; -1: it is not a result
  std::vector<ValueId> expert_loads;  // f32 [2, experts] per MoE layer: tokens, and dropped tokens
  std::vector<RouterSums> router_sums;  // one per MoE layer whose router has losses of its own

  const Value& value(ValueId id) const { return values.at(static_cast<size_t>(id)); }
  // Returns true where the rank has a part of the value. The part may be empty.
  bool lies_on(ValueId id, int64_t rank) const;
  // Returns the part of the value that the rank holds.
  Region region(ValueId id, int64_t rank) const;
  Shape local_shape(ValueId id, int64_t rank) const;
  // Returns the shape of the part that costs are computed for: of packed rows, [experts, 1, rows of
  // one expert, width], with the rows that are expected on this rank.
  Shape expected_shape(ValueId id, int64_t rank) const;
  // Returns the bytes of the rank's part in memory; of packed rows, as many as it may have.
  int64_t local_bytes(ValueId id, int64_t rank) const;
  // Returns the bytes of that part in use, as expected_shape() expects it.
  int64_t expected_bytes(ValueId id, int64_t rank) const;
  // Returns the most rows that a box [experts, batch, rows, width] of packed rows may have.
  static int64_t most_rows(const Value& packed, const Region& box);
  // Returns true where the box holds the rows of all experts. Then it has the most rows if the
  // value has all rows of a sequence.
  static bool has_all_experts(const Value& packed, const Region& box);
  // Returns the elements of a buffer with summed_along.
  SummedElements summed_elements(const Value& buffer, int64_t rank) const;
  // Returns the elements from the start of one row of the rank's part to the start of the next.
  // Rows run along the last dimension; the length of a padded row is rounded up to kRowMultiple.
  int64_t row_stride(ValueId id, int64_t rank) const;

 private:
  int64_t most_elements(const Value& packed, const Region& box) const;
  int64_t held_bytes(std::span<const ValueId> held, int64_t rank) const;
  int64_t exchanged_bytes(const Value& buffer, int64_t rank) const;
  int64_t largest_part(ValueId whole, ValueId part, const std::vector<size_t>& axes,
                       int64_t rank) const;
  int64_t elements_wanted(const Region& box, const Value& of, size_t axis, int64_t rank) const;
};

// Returns true where the program uses shares other than equal ones and those of the first ranks.
bool has_unequal_parts(const Program& program);
// Returns true where some experts are expected to have more rows than others.
bool has_unequal_loads(const Program& program);
// Returns ranks that represent all ranks: every other rank has the same parts as one of them, up to
// one element. These are the first and the last rank. Where parts are unequal, they are the ranks
// whose coordinate on each axis is the first or the last among coordinates with the same weights.
std::vector<int64_t> distinct_ranks(const Program& program);
// Returns, for every rank, the first one with the same parts, up to one element.
std::vector<int64_t> alike_ranks(const Program& program);
// Returns the ranks that represent all for any layout by the mesh's shares; {0} without shares.
std::vector<int64_t> distinct_ranks(const Mesh& mesh);

// Returns the whole counts (PackedRows::counts) that the host has to know before it issues the
// instruction, because sizes of operands or messages, or masks, follow from them; -1: none.
ValueId counts_needed(const Program& program, const Instruction& instruction);

// Returns true where the rank leaves the instruction out: a collective that does not concern the
// rank, or another instruction whose outputs have no part there.
bool skips(const Program& program, const Instruction& instruction, int64_t rank);

// Tells which instructions a rank runs, and for which of them it waits.
class RankSteps {
 public:
  RankSteps(const Program& program, int64_t rank);
  // Makes the steps of a rank that runs everything.
  explicit RankSteps(const Program& program) : runs_(program.instructions.size(), true) {}

  bool runs(size_t instruction) const { return runs_[instruction]; }
  // Calls wait(i) for the instructions that the instruction waits for on this rank.
  template <typename Wait>
  void for_waits(const Instruction& instruction, Wait wait) const {
    for (const int other : instruction.waits) {
      if (runs_[static_cast<size_t>(other)]) {
        wait(other);
      }
    }
  }

  bool operator==(const RankSteps&) const = default;

 private:
  std::vector<bool> runs_;  // per instruction
};

// Returns true for a joint collective made of collectives along fewer axes.
bool is_hierarchical(const Instruction& instruction);
// Returns true for an all-to-all along several axes.
bool is_joint_exchange(const Instruction& instruction);

// Returns true where the axis is the instruction's axis or one of its inner axes.
bool works_along(const Instruction& instruction, size_t axis);

// Returns the bytes of an element in the collective's messages over those in its values.
double sent_part(const Program& program, const Instruction& instruction);

// Returns the ranks of the collective that this rank takes part in, in the order of the
// collective's axis; ranks that differ only on an inner axis are furthest apart. The ranks of a
// joint all-to-all rise along its inner axes together, and those of a flat collective rise
// altogether. The rank must not skip the instruction.
std::vector<int64_t> collective_group(const Program& program, const Instruction& instruction,
                                      int64_t rank);

// Returns the floating type T of an instruction: the type of its operands of 16 bits, else f32.
DType element_dtype(const Program& program, const Instruction& instruction);

}  // namespace hidup
