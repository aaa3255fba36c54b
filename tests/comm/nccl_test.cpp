// Collectives over NCCL, even with one rank. Run it under mpirun, every rank with its own GPU.
#include <gtest/gtest.h>

#include <optional>

#include "collective_cases/collective_cases.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"
#include "comm/nccl_communicator.h"
#include "core/check.h"
#include "device_needed/device_needed.h"

namespace hidup {
namespace {

MpiSession* g_mpi = nullptr;  // of the session in main()

// A communicator of all ranks over NCCL.
class World {
 public:
  explicit World(const NcclOptions& options = {.alone = true})
      : watchdog_(30.0),
        group_(make_nccl_communicator(make_mpi_communicator(MPI_COMM_WORLD), "ranks",
                                      g_mpi->world().rank(), options, watchdog_)) {}
  Communicator& operator*() { return *group_; }
  Communicator* operator->() { return group_.get(); }

 private:
  Watchdog watchdog_;
  std::unique_ptr<Communicator> group_;
};

DeviceOptions own_device() {
  return {.local_rank = g_mpi->local_rank()};
}

class OnNccl : public testing::TestWithParam<CollectiveCase> {
 protected:
  std::unique_ptr<Device> device_ = make_device(own_device());
};

TEST_P(OnNccl, Holds) {
  World world;
  GetParam().run(*world);
}

INSTANTIATE_TEST_SUITE_P(Cases, OnNccl, testing::ValuesIn(collective_cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(Nccl, CountsMustFitTheGroup) {
  const auto device = make_device(own_device());
  World world;
  const auto stream = device->create_stream("comm", 1);
  const std::vector<int64_t> fit(static_cast<size_t>(world->size()), 0);
  std::vector<int64_t> more = fit;
  more.push_back(0);
  EXPECT_THROW(world->all_gather(*stream, nullptr, nullptr, more, DType::f32,
                                 CollectiveAlgorithm::automatic, "x"),
               Error);
  EXPECT_THROW(world->reduce_scatter(*stream, nullptr, nullptr, more, DType::f32,
                                     CollectiveAlgorithm::automatic, "x"),
               Error);
  EXPECT_THROW(world->all_to_all(*stream, nullptr, more, nullptr, fit, DType::f32,
                                 CollectiveAlgorithm::automatic, "x"),
               Error);
  EXPECT_THROW(world->all_to_all(*stream, nullptr, fit, nullptr, more, DType::f32,
                                 CollectiveAlgorithm::automatic, "x"),
               Error);
}

TEST(Nccl, RegistersMemoryWhereAsked) {
  const auto device = make_device(own_device());
  const auto memory = device->allocate(1000);
  World plain;
  EXPECT_EQ(plain->register_memory(*memory), nullptr);
  World registers(NcclOptions{.max_ctas = 4, .register_buffers = true});
  const auto registered = registers->register_memory(*memory);
  EXPECT_EQ(registered != nullptr, registers->size() > 1);
  EXPECT_FALSE(registers->through_host());
}

TEST(Nccl, StartFailsWhereRanksShareAGpu) {
  if (g_mpi->world().size() == 1) {
    return;
  }
  const auto device = make_device({});
  try {
    World world;
    ADD_FAILURE() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
    EXPECT_NE(std::string(error.what()).find("the start of NCCL along ranks: NCCL: invalid usage"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hidup::MpiSession mpi(&argc, &argv);
  if (hidup::without_device()) {
    return hidup::kSkipped;
  }
  hidup::g_mpi = &mpi;
  hidup::set_case_device(hidup::own_device());
  return RUN_ALL_TESTS();
}
