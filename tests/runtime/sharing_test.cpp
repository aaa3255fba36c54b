// Axes of a mesh that share a link, as a profile measures them.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "fake_ranks/fake_ranks.h"
#include "fake_ranks/forwarding_rank.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

// A link that sends one message after the other, a second each, of whatever group.
class Link {
 public:
  void send() { ++messages_; }
  int messages() const { return messages_; }

 private:
  std::atomic<int> messages_ = 0;
};

// A group whose all_reduce is one message on its link; it offers no other operation.
class GroupWithLink final : public ForwardingRank {
 public:
  GroupWithLink(std::unique_ptr<Communicator> own, Link& link)
      : ForwardingRank(std::move(own)), link_(link) {}

  void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& name) override {
    if (rank() == 0) {
      stream.enqueue([this] { link_.send(); });
    }
    own().all_reduce(stream, data, count, dtype, algorithm, name);
  }

 private:
  Link& link_;
};

// Returns times of an all_reduce along every axis.
std::vector<CollectiveTimes> timed(size_t axes) {
  std::vector<CollectiveTimes> times;
  for (size_t axis = 0; axis < axes; ++axis) {
    times.push_back({.opcode = Opcode::all_reduce,
                     .axis = axis,
                     .table = {{64, 1e-5, 1e-5, 1.0}, {4096, 1e-2, 1e-2, 1.0}, {1e15, 9, 9, 1}}});
  }
  return times;
}

// Two hosts have two ranks each: a host's ranks share its link to the other host, and nothing else.
TEST(Sharing, IsOfTheAxisWhoseGroupsTakeLongerAtOnce) {
  const Mesh mesh = {{"node", 2}, {"gpu", 2}};
  Link between_hosts;
  std::array<Link, 2> in_host;
  run_ranks(4, [&](Communicator& world) {
    const auto host = static_cast<size_t>(world.rank() / 2);
    const MeshGroups groups(world, mesh,
                            [&](std::unique_ptr<Communicator> group, const std::string& axis) {
                              return std::make_unique<GroupWithLink>(
                                  std::move(group), axis == "node" ? between_hosts : in_host[host]);
                            });
    const std::unique_ptr<Device> device = make_device({.memory = int64_t{64} << 20});
    const auto now = [&] {
      return static_cast<double>(between_hosts.messages() + in_host[host].messages());
    };
    const std::map<size_t, double> shared =
        time_sharing(*device, groups, mesh, world, timed(2), 0.05, now);
    const std::map<size_t, double> expected = {{0, 2.0}};
    EXPECT_EQ(shared, expected);
  });
}

TEST(Sharing, IsNotMeasuredOfOneGroupOrWithoutTimes) {
  const Mesh mesh = {{"node", 2}, {"gpu", 1}};
  Link link;
  run_ranks(2, [&](Communicator& world) {
    const MeshGroups groups(world, mesh,
                            [&](std::unique_ptr<Communicator> group, const std::string&) {
                              return std::make_unique<GroupWithLink>(std::move(group), link);
                            });
    const std::unique_ptr<Device> device = make_device({.memory = int64_t{64} << 20});
    EXPECT_TRUE(time_sharing(*device, groups, mesh, world, timed(1), 0.05).empty());
  });
  run_ranks(4, [&](Communicator& world) {
    const Mesh two = {{"node", 2}, {"gpu", 2}};
    const MeshGroups groups(world, two);
    const std::unique_ptr<Device> device = make_device({.memory = int64_t{64} << 20});
    EXPECT_TRUE(time_sharing(*device, groups, two, world, {}, 0.05).empty());
  });
  EXPECT_EQ(link.messages(), 0);
}

}  // namespace
}  // namespace hidup
