// The program as text, for people and for diffs.
#pragma once

#include <string>

#include "program/program.h"

namespace hidup {

// Every value with its type, layout and role; every instruction on a line:
//   INDEX STREAM PHASE MICROBATCH OPCODE NAME (inputs) -> (outputs) {attributes} [waits for INDEX]
std::string print_program(const Program& program);

// "instruction 12 (matmul layers.0.ffn.up)", for messages.
std::string describe(const Program& program, int instruction);

// The collectives alone, a line each, in the order they are issued: what all ranks
// must agree on.
std::string print_collectives(const Program& program);

}  // namespace hidup
