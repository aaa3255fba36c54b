// The communicators of a mesh: one per axis.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "sharding/placement.h"

namespace hidup {

// A group with its device collectives over what a run has for them; `axis`: the name of the mesh's
// axis along which the group lies.
using GroupMaker = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator> group,
                                                               const std::string& axis)>;

class MeshGroups {
 public:
  // Collective. `world` has as many ranks as the mesh, and lives longer. `make`: of each group that
  // was split from it; empty: they stay as they are.
  MeshGroups(Communicator& world, const Mesh& mesh, const GroupMaker& make = {});
  // The ranks that differ from this one in their coordinate on that axis only.
  Communicator& axis(size_t axis) const { return *groups_.at(axis); }
  // As Communicator's, of all axes.
  bool through_host() const;
  std::vector<std::shared_ptr<void>> register_memory(void* data, int64_t bytes) const;

 private:
  std::vector<std::unique_ptr<Communicator>> groups_;
};

}  // namespace hidup
