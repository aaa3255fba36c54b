// Operands of an instruction on this rank; for the sources of this folder only.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "runtime/bind.h"

namespace hidup {

using Launch = std::function<void(Stream&)>;

class Operands {
 public:
  Operands(const Instruction& instruction, const Binding& binding)
      : instruction_(instruction), binding_(binding) {}

  // Return operand i as f32 (in, out), as `Element` (in_as, out_as) or as i32 (*_integers).
  float* in(size_t i) const { return pointer<float>(instruction_.inputs.at(i)); }
  float* out(size_t i) const { return pointer<float>(instruction_.outputs.at(i)); }
  template <typename Element>
  Element* in_as(size_t i) const {
    return pointer<Element>(instruction_.inputs.at(i));
  }
  template <typename Element>
  Element* out_as(size_t i) const {
    return pointer<Element>(instruction_.outputs.at(i));
  }
  // Return the operand of that name or null. No operand of the opcode's signature may repeat.
  template <typename Element>
  Element* in_named(std::string_view name) const {
    return named<Element>(signature().inputs, instruction_.inputs, name);
  }
  template <typename Element>
  Element* out_named(std::string_view name) const {
    return named<Element>(signature().outputs, instruction_.outputs, name);
  }
  int32_t* in_integers(size_t i) const { return pointer<int32_t>(instruction_.inputs.at(i)); }
  int32_t* out_integers(size_t i) const { return pointer<int32_t>(instruction_.outputs.at(i)); }
  Shape in_shape(size_t i) const { return shape_of(in_region(i)); }
  Shape out_shape(size_t i) const { return shape_of(out_region(i)); }
  // Return this rank's part of an operand. Packed rows are [rows in use, width].
  Region in_region(size_t i) const { return held(instruction_.inputs.at(i)); }
  Region out_region(size_t i) const { return held(instruction_.outputs.at(i)); }
  // Returns the rank's box of a value; of packed rows, that of their experts and sequences.
  // Return the row stride in elements, as kernels take it; 0 for dense tensors.
  int64_t in_stride(size_t i) const { return stride(instruction_.inputs.at(i)); }
  int64_t out_stride(size_t i) const { return stride(instruction_.outputs.at(i)); }
  Region region(ValueId id, int64_t rank) const { return binding_.program.region(id, rank); }
  // Returns the attributes, whose kind is that of the opcode's record.
  template <typename Kind>
  const Kind& attributes() const {
    return instruction_.as<Kind>();
  }
  // Returns the key of the random numbers that the instruction draws.
  uint64_t random_key() const { return random_stream(binding_.seed, instruction_.purpose).key; }
  bool accumulate() const { return instruction_.accumulate; }
  const Instruction& instruction() const { return instruction_; }
  const Binding& binding() const { return binding_; }

 private:
  Region held(ValueId id) const;
  const Signature& signature() const { return spec_of(instruction_.opcode).signature; }
  template <typename T>
  T* named(const OperandList& operands, const std::vector<ValueId>& values,
           std::string_view name) const {
    const int i = operands.find(name);
    return i < 0 ? nullptr : pointer<T>(values.at(static_cast<size_t>(i)));
  }
  int64_t stride(ValueId id) const {
    return binding_.program.value(id).padded_rows ? binding_.program.row_stride(id, binding_.rank)
                                                  : 0;
  }
  template <typename T>
  T* pointer(ValueId value) const {
    return reinterpret_cast<T*>(binding_.arena +
                                binding_.plan.offsets.at(static_cast<size_t>(value)));
  }

  const Instruction& instruction_;
  const Binding& binding_;
};

struct Span {
  std::byte* data;
  int64_t count;  // elements
};
// Returns the span of contiguous values; the verifier has proved that they are contiguous.
Span span_of(const Operands& at, const std::vector<ValueId>& values);

// An opcode and the function that makes the launches of its instructions.
struct LaunchRow {
  Opcode opcode;
  Launch (*launch)(const Operands& at);
};
// Return the launches, together for all opcodes. `Element`: the floating type T of signatures.
template <typename Element>
std::vector<LaunchRow> dense_launches();
template <typename Element>
std::vector<LaunchRow> sequence_launches();
template <typename Element>
std::vector<LaunchRow> expert_launches();
template <typename Element>
std::vector<LaunchRow> update_launches();
std::vector<LaunchRow> reshard_launches();

}  // namespace hidup
