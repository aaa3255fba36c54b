#include "program/slots.h"

#include <algorithm>

#include "sharding/stages.h"

namespace hidup {
namespace {

constexpr size_t kAhead = 3;  // slots between a value's arrival and its use, at most

// A slot on its own device: the instructions there that compute, and the place of the first one.
struct DeviceSlot {
  int first = -1;
  int last = -1;
};

// Adds the waits of one device.
class DeviceWaits {
 public:
  // `rank`: some rank of the device.
  DeviceWaits(const Program& program, int64_t rank, std::vector<std::vector<int>>& waits)
      : program_(program), steps_(program, rank), waits_(waits) {}

  // `slots`: the numbers of the device's slots, rising.
  void run(const std::vector<int>& slots) {
    find(slots);
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
      const auto at = std::ranges::lower_bound(slots, instruction.slot);
      if (at == slots.end() || *at != instruction.slot || !between_stages(instruction.stream)) {
        continue;
      }
      const auto place = static_cast<size_t>(at - slots.begin());
      if (place >= kAhead && of_slot_[place - kAhead].last >= 0) {
        waits_[static_cast<size_t>(i)].push_back(of_slot_[place - kAhead].last);
      }
    }
    hold_slots();
  }

 private:
  void find(const std::vector<int>& slots) {
    of_slot_.resize(slots.size());
    for (int i = 0; i < static_cast<int>(program_.instructions.size()); ++i) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(i)];
      const auto at = std::ranges::lower_bound(slots, instruction.slot);
      const bool own = at != slots.end() && *at == instruction.slot;
      if (own && !communicates(instruction.stream) && steps_.runs(static_cast<size_t>(i))) {
        DeviceSlot& slot = of_slot_[static_cast<size_t>(at - slots.begin())];
        slot.first = slot.first < 0 ? i : slot.first;
        slot.last = i;
      }
    }
  }

  // The first instruction of a slot waits for the messages before the slot before it.
  void hold_slots() {
    for (const StreamKind stream : {StreamKind::down, StreamKind::up}) {
      int message = -1;
      int next = 0;
      for (size_t slot = 1; slot < of_slot_.size(); ++slot) {
        for (; next < of_slot_[slot - 1].first; ++next) {
          const auto i = static_cast<size_t>(next);
          message = program_.instructions[i].stream == stream && steps_.runs(i) ? next : message;
        }
        if (message >= 0 && of_slot_[slot].first >= 0) {
          waits_[static_cast<size_t>(of_slot_[slot].first)].push_back(message);
        }
      }
    }
  }

  const Program& program_;
  const RankSteps steps_;
  std::vector<std::vector<int>>& waits_;
  std::vector<DeviceSlot> of_slot_;
};

}  // namespace

std::vector<std::vector<int>> waits_of_slots(const Program& program, const Stages& stages,
                                             size_t axis, const std::vector<int>& device_of_slot) {
  std::vector<std::vector<int>> waits(program.instructions.size());
  for (size_t device = 0; device < stages.coordinates.size(); ++device) {
    std::vector<int> slots;
    for (size_t slot = 0; slot < device_of_slot.size(); ++slot) {
      if (device_of_slot[slot] == static_cast<int>(device)) {
        slots.push_back(static_cast<int>(slot));
      }
    }
    const int64_t rank = stages.coordinates[device].front() * stride_of(program.mesh, axis);
    DeviceWaits(program, rank, waits).run(slots);
  }
  return waits;
}

}  // namespace hidup
