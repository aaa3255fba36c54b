// Run under mpirun, on any number of ranks.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "comm/heartbeat.h"
#include "comm/mpi_session.h"
#include "core/check.h"

namespace hidup {
namespace {

Communicator* g_world = nullptr;  // of the session that main() holds

class Ranks : public testing::Test {
 protected:
  Communicator& world_ = *g_world;
  std::unique_ptr<Device> device_ = make_device({});
  std::unique_ptr<Stream> stream_ = device_->create_stream("comm", 1);
};

TEST_F(Ranks, AllReduceSumsAndGivesAllTheSameBits) {
  for (const int64_t count : {0, 1, 7, 1000, 300001}) {
    std::vector<float> data(static_cast<size_t>(count));
    for (size_t i = 0; i < data.size(); ++i) {
      data[i] = 1.0F / static_cast<float>(i + 1) + static_cast<float>(world_.rank());
    }
    world_.all_reduce(*stream_, data.data(), count, "data");
    stream_->synchronize();
    const auto ranks = static_cast<float>(world_.size());
    for (size_t i = 0; i < data.size(); ++i) {
      const float sum = ranks / static_cast<float>(i + 1) + ranks * (ranks - 1.0F) / 2.0F;
      ASSERT_NEAR(data[i], sum, 4e-6F * sum);
    }
    uint64_t bits = 0;
    for (const float value : data) {
      uint32_t word = 0;
      std::memcpy(&word, &value, sizeof(word));
      bits = bits * 31 + word;
    }
    for (const uint64_t other : all_gather_value(world_, bits)) {
      EXPECT_EQ(other, bits);
    }
  }
}

TEST_F(Ranks, DeviceAndHostCollectivesDoNotMix) {
  // One runs on the stream's thread while the other runs here, on the same group.
  std::vector<float> data(100000, 1.0F);
  for (int round = 0; round < 20; ++round) {
    std::fill(data.begin(), data.end(), 1.0F);
    world_.all_reduce(*stream_, data.data(), static_cast<int64_t>(data.size()), "data");
    const std::vector<int> ranks = all_gather_value(world_, world_.rank());
    stream_->synchronize();
    EXPECT_EQ(ranks.back(), world_.size() - 1);
    EXPECT_EQ(data.back(), static_cast<float>(world_.size()));
  }
}

TEST_F(Ranks, BroadcastIsRankZeros) {
  for (const size_t length : {size_t{0}, size_t{5}, size_t{100000}}) {
    const std::string mine(length, static_cast<char>('a' + world_.rank()));
    EXPECT_EQ(world_.broadcast(mine), std::string(length, 'a'));
  }
}

TEST_F(Ranks, GatherTakesUnevenParts) {
  const std::vector<std::byte> mine(static_cast<size_t>(world_.rank()) * 3,
                                    static_cast<std::byte>(world_.rank()));
  const auto parts = world_.gather(mine);
  ASSERT_EQ(parts.size(), world_.rank() == 0 ? static_cast<size_t>(world_.size()) : 0U);
  for (size_t r = 0; r < parts.size(); ++r) {
    EXPECT_EQ(parts[r], std::vector<std::byte>(r * 3, static_cast<std::byte>(r)));
  }
}

TEST_F(Ranks, HeartbeatsEndTogetherAndMayStartAgain) {
  for (int round = 0; round < 2; ++round) {
    const Heartbeat heartbeat(
        5.0, [] { return Progress{}; }, [](const Progress&) { return std::string("here"); });
    world_.barrier();
  }
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  hidup::MpiSession mpi(&argc, &argv);
  hidup::g_world = &mpi.world();
  return RUN_ALL_TESTS();
}
