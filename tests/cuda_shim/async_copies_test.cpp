// Copies to shared memory while a block computes.
#include <cuda_pipeline.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

constexpr int kCopying = 64;

// Thread i copies element i of two rows in two groups. `seen`, [4, kCopying], gets the neighbour's
// elements as the block sees them at each step.
__global__ void two_groups_kernel(const float* rows, float* seen) {
  __shared__ float first[kCopying];
  __shared__ float second[kCopying];
  const auto i = static_cast<int>(threadIdx.x);
  const int other = (i + 1) % kCopying;
  __pipeline_memcpy_async(&first[i], rows + i, 4);
  __pipeline_commit();
  __pipeline_memcpy_async(&second[i], rows + kCopying + i, 4);
  __pipeline_commit();
  __syncthreads();
  seen[i] = first[other];
  __syncthreads();
  __pipeline_wait_prior(1);
  __syncthreads();
  seen[kCopying + i] = first[other];
  seen[2 * kCopying + i] = second[other];
  __syncthreads();
  __pipeline_wait_prior(0);
  __syncthreads();
  seen[3 * kCopying + i] = second[other];
}

TEST(AsyncCopies, AreThereWhenTheirGroupIsWaitedForAndNotBefore) {
  DeviceArray<float> rows(2 * kCopying, 0.0F);
  std::iota(rows.data(), rows.data() + 2 * kCopying, 1.0F);
  DeviceArray<float> seen(4 * kCopying, 0.0F);
  ASSERT_EQ(launch_and_wait(1, kCopying, two_groups_kernel, rows.data(), seen.data()), cudaSuccess);
  for (int i = 0; i < kCopying; ++i) {
    const auto other = static_cast<float>((i + 1) % kCopying + 1);
    EXPECT_TRUE(std::isnan(seen.data()[i]));
    EXPECT_EQ(seen.data()[kCopying + i], other);
    EXPECT_TRUE(std::isnan(seen.data()[2 * kCopying + i]));
    EXPECT_EQ(seen.data()[3 * kCopying + i], other + kCopying);
  }
}

// Waiting does not cover a neighbour's copies: without a barrier after the wait they may be late.
__global__ void no_barrier_kernel(const float* row, float* seen) {
  __shared__ float copy[kCopying];
  const auto i = static_cast<int>(threadIdx.x);
  __pipeline_memcpy_async(&copy[i], row + i, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  seen[i] = copy[(i + 32) % kCopying];
}

TEST(AsyncCopies, OfOthersNeedABarrier) {
  DeviceArray<float> row(kCopying, 1.0F);
  DeviceArray<float> seen(kCopying, 0.0F);
  ASSERT_EQ(launch_and_wait(1, kCopying, no_barrier_kernel, row.data(), seen.data()), cudaSuccess);
  int late = 0;
  for (const float value : seen.values()) {
    late += value == 1.0F ? 0 : 1;
  }
  EXPECT_GT(late, 0);
}

// Copies to one buffer in rounds. With `apart`, barriers let all threads read the last one first.
__global__ void reuse_kernel(const float* rows, float* seen, int rounds, bool apart) {
  __shared__ float copy[kCopying];
  const auto i = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    __pipeline_memcpy_async(&copy[i], rows + round * kCopying + i, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    seen[round * kCopying + i] = copy[(i + 32) % kCopying];
    if (apart) {
      __syncthreads();
    }
  }
}

TEST(AsyncCopies, OverwriteWhatOthersStillRead) {
  constexpr int kRounds = 4;
  DeviceArray<float> rows(kRounds * kCopying, 0.0F);
  std::iota(rows.data(), rows.data() + kRounds * kCopying, 1.0F);
  for (const bool apart : {true, false}) {
    DeviceArray<float> seen(kRounds * kCopying, 0.0F);
    ASSERT_EQ(launch_and_wait(1, kCopying, reuse_kernel, rows.data(), seen.data(), kRounds, apart),
              cudaSuccess);
    int wrong = 0;
    for (int i = 0; i < kRounds * kCopying; ++i) {
      const int from = i / kCopying * kCopying + (i % kCopying + 32) % kCopying;
      wrong += seen.data()[i] == rows.data()[from] ? 0 : 1;
    }
    EXPECT_EQ(wrong == 0, apart);
  }
}

__global__ void fill_kernel(const float* row, float* seen, int zeros) {
  alignas(16) __shared__ float copy[4];
  __pipeline_memcpy_async(copy, row, 16, static_cast<size_t>(zeros));
  __pipeline_commit();
  __pipeline_wait_prior(0);
  for (int i = 0; i < 4; ++i) {
    seen[i] = copy[i];
  }
}

TEST(AsyncCopies, EndInZeros) {
  DeviceArray<float> row(4, 5.0F);
  DeviceArray<float> seen(4, 0.0F);
  ASSERT_EQ(launch_and_wait(1, 1, fill_kernel, row.data(), seen.data(), 4), cudaSuccess);
  EXPECT_EQ(seen.values(), (std::vector<float>{5.0F, 5.0F, 5.0F, 0.0F}));
  ASSERT_EQ(launch_and_wait(1, 1, fill_kernel, nullptr, seen.data(), 16), cudaSuccess);
  EXPECT_EQ(seen.values(), std::vector<float>(4, 0.0F));
}

__global__ void bad_copy_kernel(const float* row, int from, int size, bool wait) {
  alignas(16) __shared__ float copy[4];
  __pipeline_memcpy_async(copy, row + from, static_cast<size_t>(size));
  __pipeline_commit();
  if (wait) {
    __pipeline_wait_prior(0);
  }
}

TEST(AsyncCopies, AreOf4Or8Or16AlignedBytesAndWaitedFor) {
  DeviceArray<float> row(8, 5.0F);
  const auto fault_of = [&](int from, int size, bool wait) {
    launch_and_wait(1, 1, bad_copy_kernel, row.data(), from, size, wait);
    return take_fault();
  };
  EXPECT_EQ(fault_of(0, 16, true), "");
  EXPECT_EQ(fault_of(1, 4, true), "");
  EXPECT_NE(fault_of(1, 16, true).find("not aligned"), std::string::npos);
  EXPECT_NE(fault_of(0, 12, true).find("12 bytes"), std::string::npos);
  EXPECT_NE(fault_of(0, 16, false).find("did not wait"), std::string::npos);
}

}  // namespace
}  // namespace cuda_shim
