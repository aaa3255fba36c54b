// Prints a program as text, for people and for diffs.
#pragma once

#include <string>

#include "core/check.h"
#include "program/program.h"

namespace hidup {

// Prints every value with its type, layout and role, and every instruction on a line:
//   INDEX STREAM PHASE MICROBATCH OPCODE NAME (inputs) -> (outputs) {attributes} [waits for INDEX]
std::string print_program(const Program& program);

// Returns "instruction 12 (matmul layers.0.ffn.up)", for error messages.
std::string describe(const Program& program, int instruction);

// Return texts for the messages of checks, which are made only where a check fails. `object` has a
// to_string() and outlives the text.
inline auto lazily_described(const Program& program, int instruction) {
  return Lazy{[&program, instruction] { return describe(program, instruction); }};
}
template <typename Object>
auto lazy_text(const Object& object) {
  return Lazy{[&object] { return to_string(object); }};
}

// Prints the collectives alone, one per line in issue order. All ranks must agree on this text.
std::string print_collectives(const Program& program);

}  // namespace hidup
