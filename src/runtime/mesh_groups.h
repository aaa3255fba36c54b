// The communicators of a mesh: one per axis, and those that programs name: of some of an axis's
// ranks, or along several axes.
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

// Axes, outermost first, along which the group of a joint all-to-all lies: of a hierarchical one
// that inside of its axis. Empty for other instructions.
std::vector<size_t> axes_of_group(const Instruction& instruction);

class MeshGroups {
 public:
  // Collective. `world` has as many ranks as the mesh, and lives longer. `make`: of each group that
  // was split from it; empty: they stay as they are.
  MeshGroups(Communicator& world, const Mesh& mesh, const GroupMaker& make = {});
  // Collective. Makes the groups of the program's collectives that are less than an axis
  // (Instruction::group) or lie along several (joint all-to-alls) and are not there yet, before a
  // Store is made that it runs in.
  void add_groups_of(const Program& program);
  // The ranks that differ from this one in their coordinate on that axis only.
  Communicator& axis(size_t axis) const { return *groups_.at(axis); }
  // Those of them with these coordinates, this rank's among them; empty: all. Throws
  // Error(internal) for a group that was not added.
  Communicator& group(size_t axis, const std::vector<int64_t>& coordinates) const;
  // The ranks that differ from this one in their coordinates on these axes only, rising. Throws
  // Error(internal) for several axes of which no group was added.
  Communicator& along(const std::vector<size_t>& axes) const;
  // As Communicator's, of all groups.
  bool through_host() const;
  std::vector<std::shared_ptr<void>> register_memory(Buffer& memory) const;

 private:
  template <typename Use>
  void for_each(Use use) const;
  void add_part(size_t axis, const std::vector<int64_t>& coordinates);
  void add_along(const std::vector<size_t>& axes);

  Communicator& world_;
  GroupMaker make_;
  int64_t rank_;
  Mesh mesh_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  // By axis and coordinates; null where this rank is not among them.
  std::map<std::pair<size_t, std::vector<int64_t>>, std::unique_ptr<Communicator>> parts_;
  std::map<std::vector<size_t>, std::unique_ptr<Communicator>> along_;  // by several axes
};

}  // namespace hidup
