// The start of the messages that a profile times alone.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_ranks/fake_ranks.h"
#include "fake_ranks/forwarding_rank.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

// A group that records its messages and barriers in the stream's order.
class NotingGroup final : public ForwardingRank {
 public:
  struct Messages {
    std::chrono::milliseconds length;
    bool through_host;
  };
  NotingGroup(std::unique_ptr<Communicator> own, const Messages& messages, std::string& notes)
      : ForwardingRank(std::move(own)), messages_(messages), notes_(notes) {}

  bool through_host() const override { return messages_.through_host; }
  void all_to_all(Stream& stream, const void*, const std::vector<int64_t>&, void*,
                  const std::vector<int64_t>&, DType, CollectiveAlgorithm,
                  const std::string&) override {
    stream.enqueue([this] {
      std::this_thread::sleep_for(messages_.length);
      notes_ += "m";
    });
  }
  void barrier() override {
    notes_ += "b";
    ForwardingRank::barrier();
  }

 private:
  Messages messages_;
  std::string& notes_;
};

using Messages = NotingGroup::Messages;

// Returns one rank's record, while two ranks time three messages after one that warms up.
std::string notes_of(const Messages& messages) {
  const Mesh mesh = {{"ranks", 2}};
  std::vector<std::string> notes(2);
  run_ranks(2, [&](Communicator& world) {
    std::string& mine = notes[static_cast<size_t>(world.rank())];
    const MeshGroups groups(
        world, mesh, [&](std::unique_ptr<Communicator> group, const std::string&) {
          return std::make_unique<NotingGroup>(std::move(group), messages, mine);
        });
    const std::unique_ptr<Device> device = make_device({.memory = int64_t{64} << 20});
    time_probes(
        *device, groups, world,
        {{.opcode = Opcode::all_to_all, .axis = 0, .bytes = 64, .repetitions = 3, .rows = 1}});
  });
  EXPECT_EQ(notes[0], notes[1]);
  return notes[0];
}

TEST(LoneMessages, LongOnesBeginTogetherOnAllRanks) {
  EXPECT_EQ(notes_of({.length = std::chrono::milliseconds(5), .through_host = true}), "mbmbmbm");
}

// Device messages follow each other without a barrier of the host.
TEST(LoneMessages, OfTheDevicesFollowEachOther) {
  EXPECT_EQ(notes_of({.length = std::chrono::milliseconds(5), .through_host = false}), "mmmm");
}

}  // namespace
}  // namespace hidup
