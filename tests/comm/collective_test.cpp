#include "comm/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "comm/clock.h"
#include "device/device.h"
#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Makes rank 1 of 3 throw the error of `thrower`, and checks that all ranks get this code.
void expect_all_know(ExitCode code, const std::string& message,
                     const std::function<void()>& thrower) {
  run_ranks(
      3,
      [&](Communicator& world) {
        try {
          collectively(world, [&] {
            if (world.rank() == 1) {
              thrower();
            }
          });
          ADD_FAILURE() << "rank " << world.rank() << " does not know of it";
        } catch (const CollectiveError& error) {
          EXPECT_EQ(error.code(), code);
          if (world.rank() == 1) {
            EXPECT_THAT(error.what(), HasSubstr(message));
          } else {
            EXPECT_STREQ(error.what(), "");
          }
        }
      },
      5.0);
}

TEST(Collectively, AllRanksKnowWhateverIsThrown) {
  expect_all_know(ExitCode::file, "no x", [] { fail(ExitCode::file, "no x"); });
  expect_all_know(ExitCode::out_of_memory, "memory", [] { throw std::bad_alloc(); });
  expect_all_know(ExitCode::out_of_memory, "memory", [] { throw std::length_error("vector"); });
  expect_all_know(ExitCode::out_of_memory, "cannot start a thread", [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  expect_all_know(ExitCode::file, "nowhere",
                  [] { std::filesystem::create_directory("/nowhere/at/all"); });
  expect_all_know(ExitCode::internal, "odd", [] { throw std::logic_error("odd"); });
  expect_all_know(ExitCode::internal, "unknown", [] { throw 7; });
}

TEST(GatherTexts, InTheOrderOfRanksOnTheFirst) {
  run_ranks(3, [](Communicator& world) {
    const std::string mine(static_cast<size_t>(world.rank()), 'x');  // rank 0 has an empty text
    const std::vector<std::string> all = gather_texts(world, mine);
    if (world.rank() == 0) {
      EXPECT_THAT(all, ElementsAre("", "x", "xx"));
    } else {
      EXPECT_THAT(all, IsEmpty());
    }
  });
}

TEST(RunStart, IsOneTimeOnAllRanksOfAHost) {
  std::array<double, 3> starts{};
  const double before = monotonic_seconds();
  run_ranks(3, [&](Communicator& world) {
    starts.at(static_cast<size_t>(world.rank())) = run_start(world, "node1");
  });
  EXPECT_GE(starts[0], before);
  EXPECT_LE(starts[0], monotonic_seconds());
  EXPECT_EQ(starts[1], starts[0]);
  EXPECT_EQ(starts[2], starts[0]);
}

// Clocks of hosts are compared. Here all hosts read one clock, at different ends of a barrier.
TEST(RunStart, OfAnotherHostDiffersByTheEndOfABarrier) {
  std::array<double, 2> starts{};
  run_ranks(2, [&](Communicator& world) {
    const std::string host = world.rank() == 0 ? "node1" : "node2";
    starts.at(static_cast<size_t>(world.rank())) = run_start(world, host);
  });
  EXPECT_NE(starts[1], starts[0]);
  EXPECT_NEAR(starts[1], starts[0], 1.0);
}

}  // namespace
}  // namespace hidup
