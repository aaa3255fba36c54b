// Times all groups of an axis at once, to find out whether they share a link.
#include <limits>

#include "runtime/lone_messages.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

// Returns the bytes of the axis's largest all_reduce that takes at most `seconds`, or of its
// smallest where all take longer, or 0 where none was timed.
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

// Returns the time of a row of messages in all groups of the axis at once relative to that in one
// group alone: the slower of the first and the last group, because groups are assumed alike. A row
// lasts from the first start to the last end of a rank: a link may divide itself unevenly between
// rows, and ranks may start late. The minimum of kTimes counts, since other work only adds time.
double time_at_once(LoneMessages& messages, Communicator& world, const MeshGroups& groups,
                    const Mesh& mesh, size_t axis, double bytes,
                    const std::function<double()>& now) {
  constexpr int kTimes = 3;
  constexpr int kInARow = 4;
  const auto first_rank = [&](int64_t rank) { return group_of(mesh, rank, axis)[0]; };
  const int64_t mine = first_rank(world.rank());
  const auto row = [&](bool takes_part) {
    world.barrier();
    const double began = now();
    if (takes_part) {
      messages.issue(kInARow, {}, {Opcode::all_reduce, groups.axis(axis)}, bytes);
      messages.times();
    }
    world.barrier();
    return std::ranges::max(all_gather_value(world, now() - began));
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
                                      double seconds, const std::function<double()>& now) {
  constexpr double kClear = 1.4;  // two groups give 1.5 to 2 on a link, 1.3 in a host's memory
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
    const double longer = time_at_once(messages, world, groups, mesh, axis, bytes, now);
    if (longer > kClear) {
      shared[axis] = longer;
    }
  }
  return shared;
}

}  // namespace hidup
