// The communicators of a mesh: one per axis.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "sharding/placement.h"

namespace hidup {

class MeshGroups {
 public:
  // Collective. `world` has as many ranks as the mesh, and lives longer.
  MeshGroups(Communicator& world, const Mesh& mesh);
  // The ranks that differ from this one in their coordinate on that axis only.
  Communicator& axis(size_t axis) const { return *groups_.at(axis); }

 private:
  std::vector<std::unique_ptr<Communicator>> groups_;
};

}  // namespace hidup
