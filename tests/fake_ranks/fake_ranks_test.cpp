#include "fake_ranks/fake_ranks.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "collective_cases/collective_cases.h"
#include "core/check.h"

namespace hidup {
namespace {

class OnFakeRanks : public testing::TestWithParam<std::tuple<CollectiveCase, int>> {};

TEST_P(OnFakeRanks, Holds) {
  run_ranks(std::get<1>(GetParam()), std::get<0>(GetParam()).run);
}

INSTANTIATE_TEST_SUITE_P(Cases, OnFakeRanks,
                         testing::Combine(testing::ValuesIn(collective_cases()),
                                          testing::Range(1, 5)),
                         [](const auto& tested) {
                           return std::get<0>(tested.param).name +
                                  std::to_string(std::get<1>(tested.param));
                         });

TEST(SelfCommunicator, HasAllCollectives) {
  for (const CollectiveCase& one : collective_cases()) {
    SCOPED_TRACE(one.name);
    one.run(*make_self_communicator());
  }
}

using Body = void (*)(Communicator&, Stream&);

// Returns every rank's error in `body`, which has its own stream and does not wait for it.
std::vector<std::string> errors_of(int ranks, Body body, double timeout = kFakeTimeout) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_ranks(
      ranks,
      [&](Communicator& world) {
        const auto device = make_device({});
        const auto stream = device->create_stream("comm", 1);
        try {
          body(world, *stream);
          stream->synchronize();
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::communication);
          errors[static_cast<size_t>(world.rank())] = error.what();
        }
      },
      timeout);
  return errors;
}

TEST(FakeRanks, RefuseDifferentNames) {
  const auto errors = errors_of(3, [](Communicator& world, Stream& stream) {
    float x = 0.0F;
    world.all_reduce(stream, &x, 1, DType::f32, CollectiveAlgorithm::automatic, "same");
    world.all_reduce(stream, &x, 1, DType::f32, CollectiveAlgorithm::automatic,
                     world.rank() == 2 ? "gate" : "embedding");
    stream.synchronize();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "rank 0 came to all_reduce of embedding (counts 1), but rank 2 came to all_reduce "
              "of gate (counts 1)");
  }
}

TEST(FakeRanks, RefuseDifferentCollectives) {
  const auto errors = errors_of(2, [](Communicator& world, Stream& stream) {
    float x = 0.0F;
    if (world.rank() == 0) {
      world.all_reduce(stream, &x, 1, DType::f32, CollectiveAlgorithm::automatic, "x");
    } else {
      world.broadcast(stream, &x, 1, 0, DType::f32, "x");
    }
    stream.synchronize();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "rank 0 came to all_reduce of x (counts 1), but rank 1 came to broadcast of x "
              "(counts 1, 0)");
  }
}

TEST(FakeRanks, RefuseDifferentCounts) {
  const auto errors = errors_of(2, [](Communicator& world, Stream& stream) {
    std::vector<float> send(8);
    std::vector<float> receive(8);
    world.all_gather(stream, send.data(), receive.data(), {4, world.rank() == 0 ? 3 : 2},
                     DType::f32, CollectiveAlgorithm::automatic, "x");
    stream.synchronize();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error,
              "rank 0 came to all_gather of x (counts 4, 3), but rank 1 came to all_gather of x "
              "(counts 4, 2)");
  }
}

TEST(FakeRanks, RefuseAnExchangeThatDoesNotMatch) {
  const auto errors = errors_of(2, [](Communicator& world, Stream& stream) {
    std::vector<float> send(8);
    std::vector<float> receive(8);
    const std::vector<int64_t> two = {2, 2};
    world.all_to_all(stream, send.data(), world.rank() == 0 ? std::vector<int64_t>{2, 3} : two,
                     receive.data(), two, DType::f32, CollectiveAlgorithm::automatic, "x");
    stream.synchronize();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "all_to_all of x: rank 0 sends 3 elements to rank 1, which expects 2");
  }
}

TEST(FakeRanks, RefuseDifferentHostCollectives) {
  const auto errors = errors_of(2, [](Communicator& world, Stream&) {
    if (world.rank() == 0) {
      world.barrier();
    } else {
      world.split(0);
    }
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "rank 0 came to barrier, but rank 1 came to split");
  }
}

TEST(FakeRanks, AMismatchInAGroupEndsTheOthers) {
  const auto errors = errors_of(3, [](Communicator& world, Stream&) {
    const auto group = world.split(world.rank() == 2 ? 1 : 0);
    if (world.rank() == 0) {
      group->barrier();
    } else if (world.rank() == 1) {
      group->broadcast("");
    }
    world.barrier();
  });
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "rank 0 came to barrier, but rank 1 came to broadcast of a text");
  }
}

TEST(FakeRanks, DoNotWaitForEver) {
  const auto errors = errors_of(
      2,
      [](Communicator& world, Stream& stream) {
        if (world.rank() == 0) {
          float x = 0.0F;
          world.all_reduce(stream, &x, 1, DType::f32, CollectiveAlgorithm::automatic, "x");
          stream.synchronize();
        }
      },
      0.05);
  EXPECT_EQ(errors[0], "rank 1 did not come to all_reduce of x within 0.05 s");
  EXPECT_EQ(errors[1], "");
}

TEST(FakeRanks, RefuseSendOverReceive) {
  const auto communicators = make_fake_ranks(1);
  const auto device = make_device({});
  const auto stream = device->create_stream("comm", 1);
  std::vector<float> data(8);
  EXPECT_THROW(communicators[0]->all_gather(*stream, &data[0], &data[3], {4}, DType::f32,
                                            CollectiveAlgorithm::automatic, "x"),
               Error);
  EXPECT_THROW(communicators[0]->all_gather(*stream, &data[3], &data[0], {4}, DType::f32,
                                            CollectiveAlgorithm::automatic, "x"),
               Error);
  EXPECT_NO_THROW(communicators[0]->all_gather(*stream, &data[0], &data[4], {4}, DType::f32,
                                               CollectiveAlgorithm::automatic, "x"));
  stream->synchronize();
}

TEST(FakeRanks, TheFirstExceptionFreesTheOthers) {
  std::string others;
  try {
    run_ranks(2, [&](Communicator& world) {
      if (world.rank() == 1) {
        throw std::runtime_error("no such deck");
      }
      try {
        world.barrier();
      } catch (const Error& error) {
        others = error.what();
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_STREQ(error.what(), "no such deck");
  }
  EXPECT_EQ(others, "rank 1 failed: no such deck");
}

}  // namespace
}  // namespace hidup
