#include "runtime/store.h"

#include <algorithm>

#include "core/check.h"

namespace hidup {
namespace {

// Returns the most bytes that a collective reads and writes, which bounds the bytes that it stages.
int64_t largest_message(const PlannedProgram& planned) {
  int64_t largest = 0;
  for (const Instruction& instruction : planned.program.instructions) {
    int64_t bytes = 0;
    for (const auto* values : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId value : *values) {
        bytes += planned.plan.sizes[static_cast<size_t>(value)];
      }
    }
    if (!collective_of(instruction.opcode).empty()) {
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

// Returns true if ranks of a host read each other's values in place.
bool uses_windows(const PlannedProgram& planned) {
  return std::ranges::any_of(planned.program.instructions, [](const Instruction& instruction) {
    return std::ranges::count(instruction.algorithms, CollectiveAlgorithm::windows) > 0;
  });
}

}  // namespace

Store::Store(std::span<const PlannedProgram> programs, Device& device, const MeshGroups& groups,
             int threads)
    : device_(device), groups_(groups) {
  const PlannedProgram& largest =
      *std::ranges::max_element(programs, {}, [](const PlannedProgram& p) { return p.plan.bytes; });
  try {
    arena_ = std::ranges::any_of(programs, uses_windows)
                 ? device.allocate_shared(largest.plan.bytes)
                 : device.allocate(largest.plan.bytes);
  } catch (const Error& error) {
    fail(error.code(), "{}; the largest tensors: {}", error.what(),
         largest_values(largest.program, largest.plan, 5));
  }
  streams_ = {device.create_stream("compute", threads), device.create_stream("comm", 1)};
  if (groups.through_host()) {
    int64_t message = 0;
    for (const PlannedProgram& planned : programs) {
      message = std::max(message, largest_message(planned));
    }
    stream(StreamKind::comm).staging(message);
  }
}

void Store::register_arena() {
  registered_ = groups_.register_memory(*arena_);
}

}  // namespace hidup
