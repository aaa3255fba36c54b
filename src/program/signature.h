// The operands of an opcode, written as one line:
//
//   x:T weight:T counts:i -> y:T          a name and an element type each
//   dy:T -> dbias:f+                      +: where the instruction accumulates, it adds to this
//   a:T b:T -> y:T=a,b                    =: it may be the same value as one of these inputs
//   dy:T~ weight:T -> dx:T                ~: its rows may be padded (Value::padded_rows)
//   (parameter:f m:f)* scale:f -> ...     the group in front repeats, once or more
//
// Types: i is i32, f is f32, T any floating type, the same for all of an instruction, S any type,
// the same for all operands of an instruction, A any type.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hidup {

struct Operand {
  std::string_view name;
  char type = 'T';
  bool sum = false;
  bool padded = false;                 // may be
  std::vector<std::string_view> over;  // inputs that an output may be, too
};

class OperandList {
 public:
  OperandList() = default;
  // One side of a signature. Throws Error(internal) where it is none.
  explicit OperandList(std::string_view text);

  // Whether an instruction may have so many.
  bool takes(size_t count) const;
  // Operand i of so many.
  const Operand& at(size_t i, size_t count) const;
  // In which repetition of the group operand i of so many is; -1: in none.
  int repetition(size_t i, size_t count) const;
  // The index of that name; -1 where there is none.
  int find(std::string_view name) const;
  const std::vector<Operand>& list() const { return list_; }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  std::vector<Operand> list_;
  size_t repeated_ = 0;  // so many at the front
};

struct Signature {
  OperandList inputs, outputs;

  Signature() = default;
  // Of "inputs -> outputs", which outlives it.
  explicit Signature(std::string_view text);
};

}  // namespace hidup
