// Prints a program as text, for people and for diffs.
#pragma once

#include <string>

#include "program/program.h"

namespace hidup {

// Prints every value with its type, layout and role, and every instruction on a line:
//   INDEX STREAM PHASE MICROBATCH OPCODE NAME (inputs) -> (outputs) {attributes} [waits for INDEX]
std::string print_program(const Program& program);

// Returns "instruction 12 (matmul layers.0.ffn.up)", for error messages.
std::string describe(const Program& program, int instruction);

// Prints the collectives alone, one per line in issue order. All ranks must agree on this text.
std::string print_collectives(const Program& program);

}  // namespace hidup
