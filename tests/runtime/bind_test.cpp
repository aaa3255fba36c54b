#include "runtime/bind.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/products.h"
#include "watching_stream.h"

namespace hidup {
namespace {

TEST(Bind, ProductsBesideMessagesAreTold) {
  if (device_kind() != "cpu") {
    GTEST_SKIP() << "the stream is a CPU's";
  }
  Program program{.mesh = {{"ranks", 1}}};
  program.values.assign(3, {.shape = {4, 4}, .layout = {Placement::replicate()}});
  const MemoryPlan plan{.offsets = {0, 256, 512}, .sizes = {64, 64, 64}, .bytes = 768};
  std::vector<std::byte> arena(static_cast<size_t>(plan.bytes));
  const std::unique_ptr<Communicator> world = make_self_communicator();
  const MeshGroups groups(*world, program.mesh);
  const Binding binding{program, plan, 0, arena.data(), nullptr, groups, 1};
  WatchingStream stream;
  for (const Opcode opcode : {Opcode::matmul, Opcode::add}) {
    for (const bool beside : {false, true}) {
      const Instruction instruction{.opcode = opcode,
                                    .inputs = {0, 1},
                                    .outputs = {2},
                                    .attributes = spec_of(opcode).attributes,
                                    .beside_messages = beside};
      bind(instruction, binding)(stream);
      EXPECT_EQ(stream.beside, beside && opcode == Opcode::matmul);
      EXPECT_FALSE(kernels::BesideMessages::now());
    }
  }
}

}  // namespace
}  // namespace hidup
