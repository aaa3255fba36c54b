#include "cost/changed_links.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "cost/roofline.h"

namespace hidup {
namespace {

// The growth of the bytes that a rank sends, and of the number of consecutive messages.
struct VolumeGrowth {
  double bytes = 1.0;
  double depth = 1.0;
};

// Returns the growth of a collective from `now` to `ranks` ranks, at least two each, as in
// roofline_profile().
VolumeGrowth growth_of(Opcode opcode, int64_t now, int64_t ranks) {
  const MessageVolume had = volume_of(opcode, now);
  const MessageVolume has = volume_of(opcode, ranks);
  return {.bytes = has.bytes / had.bytes, .depth = has.depth / had.depth};
}

// Returns the times of the collective after the growth.
std::vector<MessageTime> with_volume(std::vector<MessageTime> table, const VolumeGrowth& growth) {
  if (table.empty()) {
    return table;
  }
  const MessageTime least = table.front();
  const auto changed = [&](double of_least, double seconds) {
    return growth.depth * of_least + growth.bytes * std::max(seconds - of_least, 0.0);
  };
  for (MessageTime& row : table) {
    row.alone_s = changed(least.alone_s, row.alone_s);
    row.beside_s = changed(least.beside_s, row.beside_s);
  }
  return table;
}

void change(CollectiveTimes& times, const VolumeGrowth& growth) {
  times.latency_s *= growth.depth;
  times.bandwidth /= growth.bytes;
  times.table = with_volume(std::move(times.table), growth);
}

template <typename Change>
void for_each_along(Profile& profile, size_t axis, Change change_one) {
  for (CollectiveTimes& times : profile.collectives) {
    if (times.axis == axis && times.opcode != Opcode::slice) {
      change_one(times);
    }
  }
}

}  // namespace

Profile with_bandwidth(Profile profile, size_t axis, double factor) {
  for_each_along(profile, axis,
                 [&](CollectiveTimes& times) { change(times, {.bytes = 1.0 / factor}); });
  return profile;
}

Profile with_ranks(Profile profile, size_t axis, int64_t ranks) {
  const int64_t now = profile.key.mesh.at(axis).size;
  check(now > 1 && ranks > 1, "no messages along an axis of one rank were timed");
  for_each_along(profile, axis, [&](CollectiveTimes& times) {
    change(times, growth_of(times.opcode, now, ranks));
  });
  profile.key.mesh[axis].size = ranks;
  return profile;
}

}  // namespace hidup
