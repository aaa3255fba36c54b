// Collectives over MPI. Run it under mpirun on any number of ranks.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "collective_cases/board_cases.h"
#include "collective_cases/collective_cases.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_session.h"
#include "core/check.h"
#include "device_needed/mpi_main.h"

namespace hidup {
namespace {

Communicator* g_world = nullptr;  // of the session in main()

// Every case runs with the usual pieces, and with small ones that cut every message (elements).
class OnMpi : public testing::TestWithParam<std::tuple<CollectiveCase, int64_t>> {};

TEST_P(OnMpi, Holds) {
  const auto world = make_mpi_communicator(MPI_COMM_WORLD, std::get<1>(GetParam()));
  std::get<0>(GetParam()).run(*world);
}

INSTANTIATE_TEST_SUITE_P(Cases, OnMpi,
                         testing::Combine(testing::ValuesIn(collective_cases()),
                                          testing::Values(kMaxPiece, 1000)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(Ranks, CountsMustFitTheGroup) {
  const auto stream = make_device({})->create_stream("comm", 1);
  const std::vector<int64_t> fit(static_cast<size_t>(g_world->size()), 0);
  std::vector<int64_t> more = fit;
  more.push_back(0);
  std::vector<int64_t> negative = fit;
  negative[0] = -1;
  for (const std::vector<int64_t>& bad : {more, negative}) {
    EXPECT_THROW(g_world->all_gather(*stream, nullptr, nullptr, bad, DType::f32,
                                     CollectiveAlgorithm::automatic, "x"),
                 Error);
    EXPECT_THROW(g_world->reduce_scatter(*stream, nullptr, nullptr, bad, DType::f32,
                                         CollectiveAlgorithm::automatic, "x"),
                 Error);
    EXPECT_THROW(g_world->all_to_all(*stream, nullptr, bad, nullptr, fit, DType::f32,
                                     CollectiveAlgorithm::automatic, "x"),
                 Error);
    EXPECT_THROW(g_world->all_to_all(*stream, nullptr, fit, nullptr, bad, DType::f32,
                                     CollectiveAlgorithm::automatic, "x"),
                 Error);
  }
}

TEST(Ranks, ShareMemory) {
  memory_is_shared_by_the_ranks_of_a_host(*g_world);
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  return hidup::mpi_main(argc, argv, [](hidup::MpiSession& mpi) {
    hidup::g_world = &mpi.world();
    return RUN_ALL_TESTS();
  });
}
