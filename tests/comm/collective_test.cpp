#include "comm/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

using ::testing::HasSubstr;

// Rank 1 of 3 throws what `thrower` throws: all must learn of it, with this code.
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

}  // namespace
}  // namespace hidup
