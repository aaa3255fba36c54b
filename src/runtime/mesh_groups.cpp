#include "runtime/mesh_groups.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace hidup {

MeshGroups::MeshGroups(Communicator& world, const Mesh& mesh, const GroupMaker& make) {
  check(ranks_of(mesh) == world.size(), "a mesh of {} ranks on {}", ranks_of(mesh), world.size());
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    auto group = world.split(group_of(mesh, world.rank(), axis)[0]);
    groups_.push_back(make ? make(std::move(group), mesh[axis].name) : std::move(group));
  }
}

bool MeshGroups::through_host() const {
  return std::ranges::any_of(groups_, [](const auto& group) { return group->through_host(); });
}

std::vector<std::shared_ptr<void>> MeshGroups::register_memory(void* data, int64_t bytes) const {
  std::vector<std::shared_ptr<void>> registered;
  for (const auto& group : groups_) {
    registered.push_back(group->register_memory(data, bytes));
  }
  return registered;
}

}  // namespace hidup
