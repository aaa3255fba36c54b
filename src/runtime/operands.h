// Operands of one instruction on this rank; for the sources of this folder only.
#pragma once

#include <string_view>

#include "core/check.h"
#include "runtime/bind.h"

namespace hidup {

using Launch = std::function<void(Stream&)>;

class Operands {
 public:
  Operands(const Instruction& instruction, const Binding& binding)
      : instruction_(instruction), binding_(binding) {}

  // What the instruction takes as f32, as T of operand_dtypes(), and as i32.
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
  int32_t* in_integers(size_t i) const { return pointer<int32_t>(instruction_.inputs.at(i)); }
  int32_t* out_integers(size_t i) const { return pointer<int32_t>(instruction_.outputs.at(i)); }
  Shape in_shape(size_t i) const { return shape_of(in_region(i)); }
  Shape out_shape(size_t i) const { return shape_of(out_region(i)); }
  Region in_region(size_t i) const { return region(instruction_.inputs.at(i), binding_.rank); }
  Region out_region(size_t i) const { return region(instruction_.outputs.at(i), binding_.rank); }
  Region region(ValueId id, int64_t rank) const { return binding_.program.region(id, rank); }
  float attribute(std::string_view name) const {
    const auto found = instruction_.attributes.find(name);
    check(found != instruction_.attributes.end(), "{} has no attribute {}", instruction_.name,
          name);
    return static_cast<float>(found->second);
  }
  int64_t integer(std::string_view name) const { return static_cast<int64_t>(attribute(name)); }
  bool flag(std::string_view name) const { return instruction_.attributes.contains(name); }
  const Instruction& instruction() const { return instruction_; }
  const Binding& binding() const { return binding_; }

 private:
  template <typename T>
  T* pointer(ValueId value) const {
    return reinterpret_cast<T*>(binding_.arena +
                                binding_.plan.offsets.at(static_cast<size_t>(value)));
  }

  const Instruction& instruction_;
  const Binding& binding_;
};

// The values lie one behind the other (the verifier has proved it): one span.
struct Span {
  std::byte* data;
  int64_t count;  // elements
};
Span span_of(const Operands& at, const std::vector<ValueId>& values);

// `Element`: T of operand_dtypes().
template <typename Element>
Launch bind_experts(const Operands& at);
Launch bind_reshard(const Operands& at);
// The norm of the gradients, and the optimizer.
Launch bind_update(const Operands& at);

}  // namespace hidup
