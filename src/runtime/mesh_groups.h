// The communicators of a mesh: one per axis, and those that programs need for some ranks of an axis
// or along several axes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/communicator.h"
#include "program/program.h"
#include "sharding/placement.h"

namespace hidup {

// Returns the group with the device collectives that the run uses. `axis`: the name of the mesh
// axis along which the group lies; names of several axes are joined by '*'.
using GroupMaker = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator> group,
                                                               const std::string& axis)>;

// Returns the axes, outermost first, of the group of a flat collective, or of the inner group of a
// hierarchical all-to-all. Returns none for other instructions.
std::vector<size_t> axes_of_group(const Instruction& instruction);

class MeshGroups {
 public:
  // Collective. `world` has as many ranks as the mesh and outlives this. `make` replaces each group
  // that is split from it, if set.
  MeshGroups(Communicator& world, const Mesh& mesh, const GroupMaker& make = {});
  // Collective. Makes the missing groups of the program's collectives that have some ranks of an
  // axis (Instruction::group), are on the streams down and up, or lie along several axes. Precedes
  // the Store of the program.
  void add_groups_of(const Program& program);
  // Returns the group of the ranks that differ from this rank only in their coordinate on the axis.
  Communicator& axis(size_t axis) const { return *groups_.at(axis); }
  // Returns the group of those ranks of the axis that have one of the coordinates, which include
  // this rank's; empty means all. Streams between stages have groups of their own, because a group
  // communicates on one stream at a time. Throws Error(internal) for a group that was not added.
  Communicator& group(size_t axis, const std::vector<int64_t>& coordinates,
                      StreamKind stream = StreamKind::comm) const;
  // Returns the group of the ranks that differ from this rank only in their coordinates on these
  // axes, outermost first. Throws Error(internal) for several axes whose group was not added.
  Communicator& along(const std::vector<size_t>& axes) const;
  // Returns true if any group's collectives are host tasks (Communicator::through_host()).
  bool through_host() const;
  // Registers memory with every group (Communicator::register_memory()).
  std::vector<std::shared_ptr<void>> register_memory(Buffer& memory) const;

 private:
  template <typename Use>
  void for_each(Use use) const;
  struct Part {
    StreamKind stream = StreamKind::comm;
    size_t axis = 0;
    std::vector<int64_t> coordinates;

    bool operator<(const Part& other) const {
      return std::tie(stream, axis, coordinates) <
             std::tie(other.stream, other.axis, other.coordinates);
    }
  };
  static Part part_of(StreamKind stream, size_t axis, const std::vector<int64_t>& coordinates);
  // Returns true where the part is a group of its own.
  static bool is_separate(const Part& part) {
    return between_stages(part.stream) || !part.coordinates.empty();
  }
  void add_part(const Part& part);
  void add_along(const std::vector<size_t>& axes);

  Communicator& world_;
  GroupMaker make_;
  int64_t rank_;
  Mesh mesh_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::map<Part, std::unique_ptr<Communicator>> parts_;  // null if the group lacks this rank
  std::map<std::vector<size_t>, std::unique_ptr<Communicator>> along_;  // by several axes
};

}  // namespace hidup
