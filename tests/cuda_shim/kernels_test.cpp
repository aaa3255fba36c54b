#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

constexpr unsigned kAllLanes = 0xFFFFFFFFU;

__device__ int thread_of_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

__global__ void count_kernel(int* counts) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  ++counts[block * threads + static_cast<unsigned>(thread_of_block())];
}

TEST(Kernels, EveryThreadOfEveryBlockRunsOnce) {
  for (const auto& [grid, block] :
       {std::pair<dim3, dim3>{1, 1}, {7, 33}, {dim3(2, 3, 4), 64}, {3, dim3(4, 5, 6)}, {2, 1024}}) {
    const size_t n = grid.x * grid.y * grid.z * block.x * block.y * block.z;
    DeviceArray<int> counts(n, 0);
    ASSERT_EQ(launch_and_wait(grid, block, count_kernel, counts.data()), cudaSuccess);
    EXPECT_EQ(counts.values(), std::vector<int>(n, 1));
  }
}

// Adds in shared memory as reductions do: a neighbour's value is read after every barrier.
__global__ void tree_kernel(const int* x, int* sums) {
  __shared__ int values[256];
  const auto i = static_cast<int>(threadIdx.x);
  values[i] = x[static_cast<int>(blockIdx.x) * 256 + i];
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) {
      values[i] += values[i + half];
    }
  }
  if (i == 0) {
    sums[blockIdx.x] = values[0];
  }
}

TEST(Kernels, BarriersOrderSharedMemory) {
  DeviceArray<int> x(5 * 256, 0);
  std::iota(x.data(), x.data() + 5 * 256, 1);
  DeviceArray<int> sums(5, -1);
  for (int round = 0; round < 4; ++round) {  // in several orders
    ASSERT_EQ(launch_and_wait(5, 256, tree_kernel, x.data(), sums.data()), cudaSuccess);
    for (int b = 0; b < 5; ++b) {
      EXPECT_EQ(sums.data()[b], 256 * (256 * b + 1) + 255 * 128);
    }
  }
}

__global__ void order_kernel(int* turn, int* order) {
  order[(*turn)++] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void block_order_kernel(int* turn, int* order) {
  order[(*turn)++] = static_cast<int>(blockIdx.x);
}

// The order is neither forwards nor backwards, and the same in a run of the same launches.
TEST(Kernels, BlocksTakeTurnsInAnOrderThatLooksRandom) {
  constexpr int kBlocks = 1000;
  DeviceArray<int> turn(1, 0);
  DeviceArray<int> taken(kBlocks, -1);
  ASSERT_EQ(launch_and_wait(kBlocks, 1, block_order_kernel, turn.data(), taken.data()),
            cudaSuccess);
  const std::vector<int> order = taken.values();
  int next = 0;
  int lower = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    next += std::abs(order[i] - order[i - 1]) == 1 ? 1 : 0;
    lower += order[i] < order[i - 1] ? 1 : 0;
  }
  EXPECT_LT(next, kBlocks / 50);
  EXPECT_NEAR(lower, kBlocks / 2, kBlocks / 10);
}

// Kernels must not rely on an order, and a missing barrier would go unnoticed if it did not change.
TEST(Kernels, TheOrderOfThreadsAndBlocksChangesFromLaunchToLaunch) {
  std::vector<std::vector<int>> orders;
  for (int round = 0; round < 3; ++round) {
    DeviceArray<int> turn(1, 0);
    DeviceArray<int> taken(6 * 40, -1);
    ASSERT_EQ(launch_and_wait(6, 40, order_kernel, turn.data(), taken.data()), cudaSuccess);
    std::vector<int> order = taken.values();
    EXPECT_FALSE(std::ranges::find(orders, order) != orders.end());
    orders.push_back(order);
    std::ranges::sort(order);
    EXPECT_EQ(std::ranges::adjacent_find(order), order.end());
  }
}

__global__ void shuffle_kernel(int* out) {
  const int i = thread_of_block();
  int* mine = out + i * 8;
  mine[0] = __shfl_sync(kAllLanes, i, 5);
  mine[1] = __shfl_sync(kAllLanes, i, 9, 8);  // lane 1 of every eight
  mine[2] = __shfl_up_sync(kAllLanes, i, 3);
  mine[3] = __shfl_up_sync(kAllLanes, i, 3, 16);
  mine[4] = __shfl_down_sync(kAllLanes, i, 2);
  mine[5] = __shfl_down_sync(kAllLanes, i, 2, 4);
  mine[6] = __shfl_xor_sync(kAllLanes, i, 16);
  mine[7] = static_cast<int>(__shfl_xor_sync(kAllLanes, static_cast<double>(i) + 0.5, 1) * 2.0);
}

TEST(Kernels, ShufflesReadOtherLanes) {
  DeviceArray<int> out(64 * 8, -1);
  ASSERT_EQ(launch_and_wait(1, dim3(8, 8), shuffle_kernel, out.data()), cudaSuccess);
  for (int i = 0; i < 64; ++i) {
    const int warp = i / 32 * 32;
    const int l = i % 32;
    const std::vector<int> expected = {
        warp + 5,           warp + l / 8 * 8 + 1,  l < 3 ? i : i - 3, l % 16 < 3 ? i : i - 3,
        l > 29 ? i : i + 2, l % 4 > 1 ? i : i + 2, warp + (l ^ 16),   2 * (i ^ 1) + 1};
    EXPECT_EQ(std::vector<int>(out.data() + i * 8, out.data() + (i + 1) * 8), expected) << i;
  }
}

// Half of the warp votes while the other half shuffles.
__global__ void halves_kernel(unsigned* votes, int* sums) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i < 16) {
    votes[i] = __ballot_sync(0xFFFFU, i % 3 == 0 ? 1 : 0);
  } else {
    int sum = i;
    for (int bit = 8; bit > 0; bit /= 2) {
      sum += __shfl_xor_sync(0xFFFF0000U, sum, bit);
    }
    sums[i - 16] = sum;
  }
  __syncwarp();
  if (__any_sync(kAllLanes, i == 40 ? 1 : 0) != 0 || __all_sync(kAllLanes, i < 31 ? 1 : 0) != 0 ||
      __all_sync(kAllLanes, i < 32 ? 1 : 0) == 0) {
    votes[0] = 0;
  }
}

TEST(Kernels, PartsOfAWarpWorkOnTheirOwn) {
  DeviceArray<unsigned> votes(16, 0);
  DeviceArray<int> sums(16, 0);
  ASSERT_EQ(launch_and_wait(1, 32, halves_kernel, votes.data(), sums.data()), cudaSuccess);
  EXPECT_EQ(votes.values(), std::vector<unsigned>(16, 0x9249U));
  EXPECT_EQ(sums.values(), std::vector<int>(16, 16 * 16 + 120));
}

__global__ void atomics_kernel(int* sum, float* float_sum, int* largest, int* smallest, int* all) {
  const int i = thread_of_block();
  atomicAdd(sum, i);
  atomicAdd(float_sum, 0.5F);
  atomicMax(largest, i);
  atomicMin(smallest, i);
  const int count = __syncthreads_count(i % 4 == 0 ? 1 : 0);
  if (__syncthreads_or(i == 7 ? 1 : 0) != 0 && __syncthreads_or(0) == 0) {
    atomicAdd(all, count);
  }
}

TEST(Kernels, AtomicsAndCountingBarriers) {
  DeviceArray<int> sum(1, 0);
  DeviceArray<float> float_sum(1, 0.0F);
  DeviceArray<int> largest(1, -1);
  DeviceArray<int> smallest(1, 99);
  DeviceArray<int> all(1, 0);
  ASSERT_EQ(launch_and_wait(2, 100, atomics_kernel, sum.data(), float_sum.data(), largest.data(),
                            smallest.data(), all.data()),
            cudaSuccess);
  EXPECT_EQ(*sum, 2 * 4950);
  EXPECT_EQ(*float_sum, 100.0F);
  EXPECT_EQ(*largest, 99);
  EXPECT_EQ(*smallest, 0);
  EXPECT_EQ(*all, 200 * 25);
}

TEST(Kernels, LaunchesThatNoGpuTakesAreRefused) {
  DeviceArray<int> unused(1, 0);
  for (const auto& [grid, block] :
       {std::pair<dim3, dim3>{0, 1}, {1, 0}, {1, 1025}, {dim3(1, 65536), 1}, {1, dim3(1, 1, 65)}}) {
    EXPECT_EQ(launch_and_wait(grid, block, count_kernel, unused.data()),
              cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  EXPECT_EQ(*unused, 0);
}

// Reads the initial contents, then the value that a neighbour wrote.
__global__ void dynamic_kernel(int* before, int* after, int last) {
  auto* values = static_cast<int*>(dynamic_shared_memory());
  const auto i = static_cast<int>(threadIdx.x);
  before[i] = values[last - i];
  __syncthreads();
  values[last - i] = i;
  __syncthreads();
  after[i] = values[last - 63 + i];
}

TEST(Kernels, DynamicSharedMemoryAbove48KiBHasToBeAskedFor) {
  DeviceArray<int> before(64, 0);
  DeviceArray<int> after(64, 0);
  const auto launch = [&](int kilobytes) {
    cudaLaunchConfig_t config = {};
    config.gridDim = 3;
    config.blockDim = 64;
    config.dynamicSmemBytes = size_t{1024} * static_cast<size_t>(kilobytes);
    return cudaLaunchKernelEx(&config, dynamic_kernel, before.data(), after.data(),
                              256 * kilobytes - 1);
  };
  const auto allow = [](int kilobytes) {
    return cudaFuncSetAttribute(dynamic_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                1024 * kilobytes);
  };
  EXPECT_EQ(launch(48), cudaSuccess);
  EXPECT_EQ(launch(49), cudaErrorInvalidValue);
  EXPECT_EQ(allow(100), cudaSuccess);
  EXPECT_EQ(launch(100), cudaSuccess);
  EXPECT_EQ(launch(101), cudaErrorInvalidValue);
  EXPECT_EQ(allow(164), cudaErrorInvalidValue);  // exceeds a block's limit
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(before.values(), std::vector<int>(64, -1));
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(after.values()[static_cast<size_t>(i)], 63 - i);
  }
  cudaGetLastError();
}

__global__ void read_kernel(const int* from, int* to) {
  if (from != nullptr) {
    *to = *from;
  }
}

TEST(Kernels, ReachMemoryOfTheDeviceOnly) {
  DeviceArray<int> x(5, 7);
  DeviceArray<int> y(1, 0);
  int on_host = 0;
  EXPECT_EQ(launch_and_wait(1, 1, read_kernel, &on_host, y.data()), cudaErrorInvalidValue);
  EXPECT_EQ(launch_and_wait(1, 1, read_kernel, x.data(), &on_host), cudaErrorInvalidValue);
  EXPECT_EQ(launch_and_wait(1, 1, read_kernel, x.data() - 1, y.data()), cudaErrorInvalidValue);
  EXPECT_EQ(launch_and_wait(1, 1, read_kernel, x.data() + 6, y.data()), cudaErrorInvalidValue);
  EXPECT_EQ(*y, 0);
  EXPECT_EQ(launch_and_wait(1, 1, read_kernel, x.data() + 4, y.data()), cudaSuccess);
  EXPECT_EQ(*y, 7);
  EXPECT_EQ(launch_and_wait(1, 1, read_kernel, nullptr, y.data()), cudaSuccess);
  cudaGetLastError();
}

}  // namespace
}  // namespace cuda_shim
