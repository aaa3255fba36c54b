// Binds an instruction to its kernel launches or its collective.
#pragma once

#include <functional>

#include "device/device.h"
#include "kernels/step_state.h"
#include "program/memory.h"
#include "program/program.h"
#include "runtime/mesh_groups.h"

namespace hidup {

// The memory, groups and seed that the instructions of a rank use.
struct Binding {
  const Program& program;
  const MemoryPlan& plan;
  int64_t rank;
  std::byte* arena;
  kernels::StepState* state;  // device memory
  const MeshGroups& groups;
  uint64_t seed;
  // The counts that the instruction needs (counts_needed()), in host memory; null: none, or they
  // are not known yet.
  const int32_t* counts = nullptr;
};

// Returns a function that issues the instruction on its stream. The function does nothing on a rank
// that skips the instruction. All lookups happen here, once.
std::function<void(Stream&)> bind(const Instruction& instruction, const Binding& binding);

}  // namespace hidup
