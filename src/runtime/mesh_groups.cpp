#include "runtime/mesh_groups.h"

#include <algorithm>

#include "core/check.h"

namespace hidup {

MeshGroups::MeshGroups(Communicator& world, const Mesh& mesh, const GroupMaker& make)
    : world_(world), make_(make), rank_(world.rank()), mesh_(mesh) {
  check(ranks_of(mesh) == world.size(), "a mesh of {} ranks on {}", ranks_of(mesh), world.size());
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    auto group = world.split(group_of(mesh, rank_, axis)[0]);
    groups_.push_back(make ? make(std::move(group), mesh[axis].name) : std::move(group));
  }
}

void MeshGroups::add_groups_of(const Program& program) {
  for (const Instruction& instruction : program.instructions) {
    if (collective_of(instruction.opcode).empty()) {
      continue;
    }
    const Part part =
        part_of(instruction.stream, static_cast<size_t>(instruction.axis), instruction.group);
    if (is_separate(part)) {
      add_part(part);
    }
    if (const std::vector<size_t> axes = axes_of_group(instruction); axes.size() > 1) {
      add_along(axes);
    }
  }
}

MeshGroups::Part MeshGroups::part_of(StreamKind stream, size_t axis,
                                     const std::vector<int64_t>& coordinates) {
  return {between_stages(stream) ? stream : StreamKind::comm, axis, coordinates};
}

void MeshGroups::add_part(const Part& part) {
  if (parts_.contains(part)) {
    return;
  }
  const int64_t mine = coordinate_of(mesh_, rank_, part.axis);
  const bool takes_part =
      part.coordinates.empty() || std::ranges::binary_search(part.coordinates, mine);
  auto group = groups_[part.axis]->split(takes_part ? 0 : 1);
  // The remaining ranks of the axis need no group.
  parts_[part] = takes_part ? std::move(group) : nullptr;
}

void MeshGroups::add_along(const std::vector<size_t>& axes) {
  if (along_.contains(axes)) {
    return;
  }
  std::string name;
  for (const size_t axis : axes) {
    name += (name.empty() ? "" : "*") + mesh_[axis].name;
  }
  auto group = world_.split(group_of(mesh_, rank_, axes)[0]);
  along_[axes] = make_ ? make_(std::move(group), name) : std::move(group);
}

std::vector<size_t> axes_of_group(const Instruction& instruction) {
  std::vector<size_t> axes(instruction.inner_axes.begin(), instruction.inner_axes.end());
  if (instruction.flat) {
    axes.insert(axes.begin(), static_cast<size_t>(instruction.axis));
    return axes;
  }
  return is_joint_exchange(instruction) ? axes : std::vector<size_t>();
}

Communicator& MeshGroups::along(const std::vector<size_t>& axes) const {
  if (axes.size() == 1) {
    return axis(axes[0]);
  }
  const auto found = along_.find(axes);
  check(found != along_.end(), "a collective of a group that was not made");
  return *found->second;
}

Communicator& MeshGroups::group(size_t axis, const std::vector<int64_t>& coordinates,
                                StreamKind stream) const {
  const Part part = part_of(stream, axis, coordinates);
  if (!is_separate(part)) {
    return this->axis(axis);
  }
  const auto found = parts_.find(part);
  check(found != parts_.end() && found->second != nullptr,
        "a collective of a group that this rank does not have");
  return *found->second;
}

template <typename Use>
void MeshGroups::for_each(Use use) const {
  for (const auto& group : groups_) {
    use(*group);
  }
  for (const auto& [part, group] : parts_) {
    if (group != nullptr) {
      use(*group);
    }
  }
  for (const auto& [axes, group] : along_) {
    use(*group);
  }
}

bool MeshGroups::through_host() const {
  bool any = false;
  for_each([&](const Communicator& group) { any |= group.through_host(); });
  return any;
}

std::vector<std::shared_ptr<void>> MeshGroups::register_memory(Buffer& memory) const {
  std::vector<std::shared_ptr<void>> registered;
  for_each([&](Communicator& group) { registered.push_back(group.register_memory(memory)); });
  return registered;
}

}  // namespace hidup
