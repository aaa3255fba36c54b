// Programs that pass the verifier, and their contents.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/check.h"
#include "program/memory.h"
#include "program/verify.h"
#include "sample.h"

namespace hidup {

using Names = std::vector<std::string>;

inline Program verified_program(const Graph& graph, const Strategy& strategy, bool fuse = true,
                                int64_t bucket_bytes = 1) {
  LoweringOptions options = sample_options(bucket_bytes);
  options.fuse = fuse;
  Program program = lower(graph, strategy, options);
  for (int64_t rank = 0; rank < ranks_of(program.mesh); ++rank) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
  }
  return program;
}

// Returns the opcodes of the forward pass.
inline Names forward_opcodes(const Program& program) {
  Names names;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::forward) {
      names.emplace_back(name_of(instruction.opcode));
    }
  }
  return names;
}

// Returns the first instruction with the opcode. Throws where there is none.
inline const Instruction& find_opcode(const Program& program, Opcode opcode) {
  const auto found = std::ranges::find(program.instructions, opcode, &Instruction::opcode);
  check(found != program.instructions.end(), "no {}", name_of(opcode));
  return *found;
}

}  // namespace hidup
