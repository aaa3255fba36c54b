// The memory and the streams of a rank, which several programs share.
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

// One arena, large enough for the largest program, and the streams in use. One program runs at a
// time. Values that last from step to step lie at the arena's start (StoredValues), where all
// programs find them.
class Store {
 public:
  // `device` and `groups` outlive the store. `threads`: threads of the compute stream. Throws
  // Error(out_of_memory), which names the largest values, where the arena does not fit.
  Store(std::span<const PlannedProgram> programs, Device& device, const MeshGroups& groups,
        int threads);
  // Collective. Registers the arena with the groups that send from it, after all ranks have stores.
  void register_arena();

  Device& device() { return device_; }
  const MeshGroups& groups() const { return groups_; }
  std::byte* data() { return arena_->data(); }
  int64_t bytes() const { return arena_->bytes(); }
  // Returns the stream of that kind, which some program uses.
  Stream& stream(StreamKind kind) { return *streams_[static_cast<size_t>(kind)]; }
  // Returns the streams that the programs use, the compute stream first.
  std::vector<Stream*> streams() const;

 private:
  Device& device_;
  const MeshGroups& groups_;
  std::unique_ptr<Buffer> arena_;
  std::vector<std::shared_ptr<void>> registered_;  // registrations of the arena
  // Last, because their work uses the above. Null where no program uses the stream.
  std::array<std::unique_ptr<Stream>, kStreams> streams_;
};

}  // namespace hidup
