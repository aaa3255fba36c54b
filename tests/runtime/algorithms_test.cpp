// Collectives use the algorithms of their instructions.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fake_ranks/fake_ranks.h"
#include "fake_ranks/forwarding_rank.h"
#include "runtime/bind.h"
#include "watching_stream.h"

namespace hidup {
namespace {

using Calls = std::vector<std::string>;

// Records the algorithms that a rank and its groups are asked for.
class NotingRank final : public ForwardingRank {
 public:
  NotingRank(std::unique_ptr<Communicator> own, Calls& calls)
      : ForwardingRank(std::move(own)), calls_(calls) {}

  void all_reduce(Stream&, void*, int64_t, DType, CollectiveAlgorithm algorithm,
                  const std::string&) override {
    note("all_reduce", algorithm);
  }
  void all_gather(Stream&, const void*, void*, const std::vector<int64_t>&, DType,
                  CollectiveAlgorithm algorithm, const std::string&) override {
    note("all_gather", algorithm);
  }
  void reduce_scatter(Stream&, const void*, void*, const std::vector<int64_t>&, DType,
                      CollectiveAlgorithm algorithm, const std::string&) override {
    note("reduce_scatter", algorithm);
  }
  void all_to_all(Stream&, const void*, const std::vector<int64_t>&, void*,
                  const std::vector<int64_t>&, DType, CollectiveAlgorithm algorithm,
                  const std::string&) override {
    note("all_to_all", algorithm);
  }
  std::unique_ptr<Communicator> split(int64_t color) override {
    return std::make_unique<NotingRank>(own().split(color), calls_);
  }

 private:
  void note(const std::string& collective, CollectiveAlgorithm algorithm) {
    calls_.push_back(collective + " " + std::string(name_of(algorithm)));
  }

  Calls& calls_;
};

// Returns the calls of the first of 2 x 2 ranks.
Calls calls_of(Opcode opcode, const Layout& from, const Layout& to,
               const std::vector<int>& inner_axes,
               const std::vector<CollectiveAlgorithm>& algorithms) {
  Calls first;
  run_ranks(4, [&](Communicator& rank) {
    Calls calls;
    NotingRank world(rank.split(0), calls);
    const Program program{
        .mesh = {{"node", 2}, {"gpu", 2}},
        .values = {{.shape = {4, 4}, .layout = from}, {.shape = {4, 4}, .layout = to}}};
    const MemoryPlan plan{.offsets = {0, 256}, .sizes = {64, 64}, .bytes = 320};
    std::vector<std::byte> arena(static_cast<size_t>(plan.bytes));
    const MeshGroups groups(world, program.mesh);
    const Binding binding{program, plan, rank.rank(), arena.data(), nullptr, groups, 1};
    const Instruction instruction{.opcode = opcode,
                                  .axis = 0,
                                  .inner_axes = inner_axes,
                                  .algorithms = algorithms,
                                  .inputs = {0},
                                  .outputs = {1},
                                  .attributes = spec_of(opcode).attributes};
    WatchingStream stream;
    bind(instruction, binding)(stream);
    if (rank.rank() == 0) {
      first = calls;
    }
  });
  return first;
}

const Placement kWhole = Placement::replicate();
const Placement kSum = Placement::partial();
const Placement kRows = Placement::shard(0);

TEST(Algorithms, OfCollectivesAlongOneAxis) {
  using enum CollectiveAlgorithm;
  EXPECT_EQ(calls_of(Opcode::all_reduce, {kSum, kWhole}, {kWhole, kWhole}, {}, {}),
            Calls{"all_reduce automatic"});
  EXPECT_EQ(calls_of(Opcode::all_reduce, {kSum, kWhole}, {kWhole, kWhole}, {}, {tree}),
            Calls{"all_reduce tree"});
  EXPECT_EQ(calls_of(Opcode::all_gather, {kRows, kWhole}, {kWhole, kWhole}, {}, {halving}),
            Calls{"all_gather halving"});
  EXPECT_EQ(calls_of(Opcode::reduce_scatter, {kSum, kWhole}, {kRows, kWhole}, {}, {ring}),
            Calls{"reduce_scatter ring"});
  EXPECT_EQ(
      calls_of(Opcode::all_to_all, {kRows, kWhole}, {Placement::shard(1), kWhole}, {}, {bruck}),
      Calls{"all_to_all bruck"});
}

TEST(Algorithms, OfHierarchicalCollectivesAreThoseOfTheirParts) {
  using enum CollectiveAlgorithm;
  EXPECT_EQ(
      calls_of(Opcode::all_reduce, {kSum, kSum}, {kWhole, kWhole}, {1}, {windows, tree, halving}),
      (Calls{"reduce_scatter windows", "all_reduce tree", "all_gather halving"}));
  EXPECT_EQ(calls_of(Opcode::all_gather, {kRows, kRows}, {kWhole, kWhole}, {1}, {ring, windows}),
            (Calls{"all_gather ring", "all_gather windows"}));
  EXPECT_EQ(calls_of(Opcode::reduce_scatter, {kSum, kSum}, {kRows, kRows}, {1}, {windows, halving}),
            (Calls{"reduce_scatter windows", "reduce_scatter halving"}));
}

}  // namespace
}  // namespace hidup
