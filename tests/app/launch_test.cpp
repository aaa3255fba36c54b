#include "app/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "comm/collective.h"
#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the message of the error that all ranks throw with that code; empty without an error.
std::string common_error(int ranks, const std::function<void(Communicator&)>& body) {
  std::mutex mutex;
  std::string message;
  int errors = 0;
  run_ranks(ranks, [&](Communicator& world) {
    try {
      body(world);
    } catch (const CollectiveError& error) {
      const std::lock_guard lock(mutex);
      message += error.what();
      errors += error.code() == ExitCode::usage ? 1 : 0;
    }
  });
  EXPECT_EQ(errors, message.empty() ? 0 : ranks);
  return message;
}

TEST(Launch, TextsOfRanks) {
  EXPECT_EQ(text_of_ranks(std::vector<std::string>{"cpu", "cpu", "cpu"}), "cpu");
  EXPECT_EQ(text_of_ranks(std::vector<std::string>{"cuda", "cpu", "cuda", "cpu", "cpu"}),
            "cuda (ranks 0, 2), cpu (ranks 1, 3, 4)");
  EXPECT_EQ(text_of_ranks(std::vector<std::string>{"", "AVX2"}), "AVX2 (rank 1)");
}

TEST(Launch, LinesAndRanks) {
  run_ranks(3, [](Communicator& world) {
    const bool last = world.rank() == 2;
    EXPECT_THAT(ranks_where(world, !last), ElementsAre(0, 1));
    const auto lines = lines_of_ranks(world, {"MPI 4", last ? "oneDNN 2" : "cuBLASLt 12"});
    if (world.rank() == 0) {
      EXPECT_THAT(lines, ElementsAre("MPI 4", "cuBLASLt 12", "oneDNN 2"));
    }
  });
}

TEST(Launch, OtherArguments) {
  const auto start = [](const char* own) {
    return [own](Communicator& world) {
      std::string last = world.rank() == 0 ? "lr=1" : own;
      std::vector<std::string> texts = {"train", "a.yaml", "--set", last};
      std::vector<char*> arguments;
      for (std::string& text : texts) {
        if (!text.empty()) {
          arguments.push_back(text.data());
        }
      }
      check_same_arguments(world, arguments);
    };
  };
  EXPECT_EQ(common_error(3, start("lr=1")), "");
  EXPECT_EQ(common_error(3, start("lr=2")),
            "all ranks take the same arguments, but ranks 1, 2 started "
            "with lr=2, where rank 0 has lr=1");
  EXPECT_THAT(common_error(2, start("")),
              HasSubstr("rank 1 started with no argument, where rank 0 has lr=1"));
}

TEST(Launch, OtherVersions) {
  const auto run = [](const std::string& other) {
    return common_error(3, [&](Communicator& world) {
      check_same_version(world, world.rank() < 2 ? "1.0 abc" : other);
    });
  };
  EXPECT_EQ(run("1.0 abc"), "");
  EXPECT_EQ(run("1.0 abd"),
            "hidup 1.0 abd starts on rank 2, but hidup 1.0 abc on rank 0: all builds "
            "of a job must be of the same sources");
}

}  // namespace
}  // namespace hidup
