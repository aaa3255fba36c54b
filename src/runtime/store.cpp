#include "runtime/store.h"

#include <algorithm>

#include "core/check.h"

namespace hidup {
namespace {

// Returns the most bytes that a collective on the stream reads and writes, which bounds the bytes
// that it stages.
int64_t largest_message(const PlannedProgram& planned, StreamKind stream) {
  int64_t largest = 0;
  for (const Instruction& instruction : planned.program.instructions) {
    int64_t bytes = 0;
    for (const auto* values : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId value : *values) {
        bytes += planned.plan.sizes[static_cast<size_t>(value)];
      }
    }
    if (communicates(stream) && instruction.stream == stream) {
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
  for (const StreamKind kind : kAllStreams) {
    int64_t message = 0;
    bool used = kind == StreamKind::compute || kind == StreamKind::comm;
    for (const PlannedProgram& planned : programs) {
      used |= std::ranges::count(planned.program.instructions, kind, &Instruction::stream) > 0;
      message = std::max(message, largest_message(planned, kind));
    }
    if (!used) {
      continue;
    }
    streams_[static_cast<size_t>(kind)] =
        device.create_stream(std::string(name_of(kind)), communicates(kind) ? 1 : threads);
    if (communicates(kind) && groups.through_host()) {
      stream(kind).staging(message);
    }
  }
}

std::vector<Stream*> Store::streams() const {
  std::vector<Stream*> used;
  for (const auto& stream : streams_) {
    if (stream != nullptr) {
      used.push_back(stream.get());
    }
  }
  return used;
}

void Store::register_arena() {
  registered_ = groups_.register_memory(*arena_);
}

}  // namespace hidup
