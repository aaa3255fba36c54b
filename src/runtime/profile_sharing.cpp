// What the groups of an axis share.
#include <limits>

#include "runtime/lone_messages.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

// The largest all_reduce of the axis that takes no longer than this; the smallest where all do.
// 0: none was timed.
double largest_all_reduce(const std::vector<CollectiveTimes>& collectives, size_t axis,
                          double seconds) {
  double bytes = 0.0;
  for (const CollectiveTimes& times : collectives) {
    if (times.opcode == Opcode::all_reduce && times.axis == axis &&
        times.algorithm == CollectiveAlgorithm::automatic) {
      for (const MessageTime& row : times.table) {
        bytes = bytes == 0.0 || row.alone_s <= seconds ? row.bytes : bytes;
      }
    }
  }
  return bytes;
}

// A row of messages with all groups of the axis at once, over the same of one group alone: the
// later of its first and its last, since groups are taken to be alike. A row counts from the start
// of the first rank to the end of the last: a link need not divide itself evenly between two rows,
// and ranks may start late. Of some such times the least counts: other work only adds to them.
double time_at_once(LoneMessages& messages, Communicator& world, const MeshGroups& groups,
                    const Mesh& mesh, size_t axis, double bytes) {
  constexpr int kTimes = 3;
  constexpr int kInARow = 4;
  const auto first_rank = [&](int64_t rank) { return group_of(mesh, rank, axis)[0]; };
  const int64_t mine = first_rank(world.rank());
  const auto row = [&](bool takes_part) {
    world.barrier();
    const double began = monotonic_seconds();
    if (takes_part) {
      messages.issue(kInARow, {}, {Opcode::all_reduce, groups.axis(axis)}, bytes);
      messages.times();
    }
    world.barrier();
    return std::ranges::max(all_gather_value(world, monotonic_seconds() - began));
  };
  row(true);  // warms up
  double at_once = std::numeric_limits<double>::max();
  double alone = at_once;
  for (int i = 0; i < kTimes; ++i) {
    at_once = std::min(at_once, row(true));
    const double first = row(mine == first_rank(0));
    const double last = row(mine == first_rank(world.size() - 1));
    alone = std::min(alone, std::max(first, last));
  }
  return at_once / alone;
}

}  // namespace

std::map<size_t, double> time_sharing(Device& device, const MeshGroups& groups, const Mesh& mesh,
                                      Communicator& world,
                                      const std::vector<CollectiveTimes>& collectives,
                                      double seconds) {
  constexpr double kClear = 1.4;  // a link of two groups gives 1.5 to 2; memory of one host 1.3
  std::map<size_t, double> sizes;
  double most_bytes = 0.0;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const double bytes = largest_all_reduce(collectives, axis, seconds);
    if (bytes > 0.0 && mesh[axis].size < world.size()) {
      sizes[axis] = bytes;
      most_bytes = std::max(most_bytes, bytes);
    }
  }
  std::map<size_t, double> shared;
  if (sizes.empty()) {
    return shared;
  }
  LoneMessages messages(device, world, groups, most_bytes);
  for (const auto& [axis, bytes] : sizes) {
    const double longer = time_at_once(messages, world, groups, mesh, axis, bytes);
    if (longer > kClear) {
      shared[axis] = longer;
    }
  }
  return shared;
}

}  // namespace hidup
