// From an instruction to the kernel launches or the collective that do it.
#pragma once

#include <functional>

#include "device/device.h"
#include "kernels/step_state.h"
#include "program/memory.h"
#include "program/program.h"
#include "runtime/mesh_groups.h"

namespace hidup {

// Where the instructions of a rank find things.
struct Binding {
  const Program& program;
  const MemoryPlan& plan;
  int64_t rank;
  std::byte* arena;
  kernels::StepState* state;  // device memory
  const MeshGroups& groups;
  uint64_t seed;
};

// What issues the instruction on its stream, nothing where the rank skips it; everything it needs
// is looked up once.
std::function<void(Stream&)> bind(const Instruction& instruction, const Binding& binding);

}  // namespace hidup
