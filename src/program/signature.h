// The operands of an opcode, written as one line:
//
//   x:T weight:T counts:i -> y:T          name and element type of each operand
//   dy:T -> dbias:f+                      +: an accumulating instruction adds to this output
//   a:T b:T -> y:T=a,b                    =: the output may be one of these inputs
//   dy:T~ weight:T -> dx:T                ~: the rows may be padded (Value::padded_rows)
//   (parameter:f m:f)* scale:f -> ...     *: the group in front repeats, once or more
//
// Types: i is i32; f is f32; T is any floating type, one for all operands; S is any type, one for
// all operands; A is any type.
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
  bool padded = false;                 // the rows may be padded
  std::vector<std::string_view> over;  // inputs that may be the same value as this output
};

class OperandList {
 public:
  OperandList() = default;
  // Parses one side of a signature. Throws Error(internal) where the text is none.
  explicit OperandList(std::string_view text);

  // Returns true where an instruction may have `count` operands.
  bool takes(size_t count) const;
  // Returns operand i of `count`.
  const Operand& at(size_t i, size_t count) const;
  // Returns the repetition of the group that operand i of `count` belongs to; -1: none.
  int repetition(size_t i, size_t count) const;
  // Returns the index of the operand with that name; -1: none.
  int find(std::string_view name) const;
  const std::vector<Operand>& list() const { return list_; }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  std::vector<Operand> list_;
  size_t repeated_ = 0;  // size of the repeated group at the front
};

struct Signature {
  OperandList inputs, outputs;

  Signature() = default;
  // Parses "inputs -> outputs". The text has to outlive the signature.
  explicit Signature(std::string_view text);
};

}  // namespace hidup
