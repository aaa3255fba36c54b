#include "runtime/mesh_groups.h"

#include "core/check.h"

namespace hidup {

MeshGroups::MeshGroups(Communicator& world, const Mesh& mesh) {
  check(ranks_of(mesh) == world.size(), "a mesh of {} ranks on {}", ranks_of(mesh), world.size());
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    groups_.push_back(world.split(group_of(mesh, world.rank(), axis)[0]));
  }
}

}  // namespace hidup
