// The memory of a rank, which several programs share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "program/memory.h"
#include "program/program.h"
#include "runtime/mesh_groups.h"

namespace hidup {

// A program with this rank's plan.
struct PlannedProgram {
  const Program& program;
  const MemoryPlan& plan;
};

// One arena, as large as the program needs that needs most, and the streams on which programs run,
// one at a time. What lasts from step to step lies at its start (StoredValues), so all programs
// find it there.
class Store {
 public:
  // `device` and `groups` outlive the store. `threads`: of computation. Throws Error(out_of_memory)
  // with the largest values where the arena does not fit.
  Store(std::span<const PlannedProgram> programs, Device& device, const MeshGroups& groups,
        int threads);
  // Collective, when all ranks have their stores: makes the arena known to who sends from it.
  void register_arena();

  Device& device() { return device_; }
  const MeshGroups& groups() const { return groups_; }
  std::byte* data() { return arena_->data(); }
  int64_t bytes() const { return arena_->bytes(); }
  Stream& stream(StreamKind kind) { return *streams_[static_cast<size_t>(kind)]; }

 private:
  Device& device_;
  const MeshGroups& groups_;
  std::unique_ptr<Buffer> arena_;
  std::vector<std::shared_ptr<void>> registered_;          // the arena, with those who send from it
  std::array<std::unique_ptr<Stream>, kStreams> streams_;  // their work uses all of the above
};

}  // namespace hidup
