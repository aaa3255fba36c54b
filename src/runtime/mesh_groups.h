// The communicators of a mesh: one per axis, and one per set of an axis's ranks that programs name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "program/program.h"
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
  // Collective. Makes the groups of the program's collectives that are less than an axis
  // (Instruction::group) and not there yet, before a Store is made that it runs in.
  void add_groups_of(const Program& program);
  // The ranks that differ from this one in their coordinate on that axis only.
  Communicator& axis(size_t axis) const { return *groups_.at(axis); }
  // Those of them with these coordinates, this rank's among them; empty: all. Throws
  // Error(internal) for a group that was not added.
  Communicator& group(size_t axis, const std::vector<int64_t>& coordinates) const;
  // As Communicator's, of all groups.
  bool through_host() const;
  std::vector<std::shared_ptr<void>> register_memory(Buffer& memory) const;

 private:
  template <typename Use>
  void for_each(Use use) const;

  int64_t rank_;
  Mesh mesh_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  // By axis and coordinates; null where this rank is not among them.
  std::map<std::pair<size_t, std::vector<int64_t>>, std::unique_ptr<Communicator>> parts_;
};

}  // namespace hidup
