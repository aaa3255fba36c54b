// Kernels compiled for counting, with known counts, and with mistakes that counting finds.
#include "counters.h"

#include <cuda_pipeline.h>

#include <string>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

constexpr unsigned kThreadsOfBlock = 256;
constexpr int kWarps = kThreadsOfBlock / 32;

class Counters : public testing::Test {
 protected:
  void SetUp() override { take_counts(); }
  void TearDown() override { cudaDeviceReset(); }

  // Returns the counts of one block.
  template <typename... Parameters, typename... Arguments>
  static KernelCounts counts_of(void (*kernel)(Parameters...), Arguments... arguments) {
    EXPECT_EQ(launch_and_wait(1, kThreadsOfBlock, kernel, arguments...), cudaSuccess);
    const std::vector<KernelCounts> all = take_counts();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? KernelCounts() : all[0];
  }

  template <typename... Parameters, typename... Arguments>
  static std::string fault_of(void (*kernel)(Parameters...), Arguments... arguments) {
    launch_and_wait(1, kThreadsOfBlock, kernel, arguments...);
    EXPECT_EQ(take_counts().size(), fault().empty() ? 1U : 0U);
    return take_fault();
  }
};

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

template <typename T>
__global__ void copy_kernel(const T* x, T* y, int stride) {
  y[threadIdx.x] = x[static_cast<int>(threadIdx.x) * stride];
}

TEST_F(Counters, RequestsOfNeighboursFillTheirSectors) {
  DeviceArray<float> x(kThreadsOfBlock * 8, 1.0F);
  DeviceArray<float> y(kThreadsOfBlock, 0.0F);
  const KernelCounts counts = counts_of(copy_kernel<float>, x.data(), y.data(), 1);
  for (const GlobalCounts& side : {counts.read, counts.written}) {
    EXPECT_EQ(side.requests, kWarps);
    EXPECT_EQ(side.sectors, 4 * kWarps);
    EXPECT_EQ(side.least_sectors, 4 * kWarps);
    EXPECT_EQ(side.bytes, 4 * kThreadsOfBlock);
    EXPECT_EQ(side.distinct, 4 * kThreadsOfBlock);
  }
  EXPECT_EQ(counts.shared.requests, 0);
}

TEST_F(Counters, StridedRequestsTouchASectorForEachLane) {
  DeviceArray<float> x(kThreadsOfBlock * 8, 1.0F);
  DeviceArray<float> y(kThreadsOfBlock, 0.0F);
  const KernelCounts counts = counts_of(copy_kernel<float>, x.data(), y.data(), 8);
  EXPECT_EQ(counts.read.sectors, 32 * kWarps);
  EXPECT_EQ(counts.read.least_sectors, 4 * kWarps);
  EXPECT_EQ(counts.written.sectors, 4 * kWarps);
  // The rows do not begin at a sector's start.
  EXPECT_EQ(counts_of(copy_kernel<float>, x.data() + 1, y.data(), 1).read.sectors, 5 * kWarps);
}

TEST_F(Counters, VectorsAreOneAccess) {
  DeviceArray<float4> x(kThreadsOfBlock, {});
  DeviceArray<float4> y(kThreadsOfBlock, {});
  const KernelCounts counts = counts_of(copy_kernel<float4>, x.data(), y.data(), 1);
  EXPECT_EQ(counts.read.requests, kWarps);
  EXPECT_EQ(counts.read.sectors, 16 * kWarps);
  EXPECT_EQ(counts.written.requests, kWarps);
  DeviceArray<uint16_t> narrow(2 * kThreadsOfBlock, 1);
  EXPECT_EQ(counts_of(copy_kernel<uint16_t>, narrow.data(), narrow.data() + kThreadsOfBlock, 1)
                .read.sectors,
            2 * kWarps);
}

// Lanes that leave a loop earlier take part in the first requests only.
__global__ void triangle_kernel(const float* x, float* y) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float sum = 0.0F;
  for (int i = 0; i <= lane; ++i) {
    sum += x[32 * i + lane];
  }
  y[threadIdx.x] = sum;
}

TEST_F(Counters, LanesMeetInALoop) {
  DeviceArray<float> x(32 * 32, 1.0F);
  DeviceArray<float> y(kThreadsOfBlock, 0.0F);
  const KernelCounts counts = counts_of(triangle_kernel, x.data(), y.data());
  EXPECT_EQ(counts.read.requests, 32 * kWarps);
  EXPECT_EQ(counts.read.bytes, 4 * 528 * kWarps);
  EXPECT_EQ(counts.read.distinct, 4 * 528);  // all warps read the same
  EXPECT_EQ(counts.read.sectors, (8 * 4 + 8 * 3 + 8 * 2 + 8 * 1) * kWarps);
  EXPECT_EQ(y.values()[31], 32.0F);
}

template <typename T>
__global__ void misaligned_kernel(const float* x, float* y, int offset) {
  *reinterpret_cast<T*>(y + 4 * threadIdx.x) =
      *reinterpret_cast<const T*>(x + 4 * threadIdx.x + offset);
}

TEST_F(Counters, AccessesThatAreNotAlignedAreFaults) {
  DeviceArray<float> x(4 * kThreadsOfBlock + 4, 1.0F);
  DeviceArray<float> y(4 * kThreadsOfBlock, 0.0F);
  EXPECT_EQ(fault_of(misaligned_kernel<float4>, x.data(), y.data(), 0), "");
  EXPECT_EQ(fault_of(misaligned_kernel<float2>, x.data(), y.data(), 2), "");
  for (const int offset : {1, 2, 3}) {
    expect_parts(fault_of(misaligned_kernel<float4>, x.data(), y.data(), offset),
                 {"misaligned_kernel<float4>", "thread (", "16 bytes", "counters_test.cpp:"});
  }
  expect_parts(fault_of(misaligned_kernel<float2>, x.data(), y.data(), 1), {"8 bytes"});
}

enum class Between { nothing, barrier, warp_barrier, shuffle };

// Every thread reads the element of the thread `distance` further, in its warp or the next one.
__global__ void neighbour_kernel(float* y, int distance, Between between) {
  __shared__ float values[kThreadsOfBlock];
  const auto i = static_cast<int>(threadIdx.x);
  const int warp = distance < 32 ? i / 32 : (i / 32 + 1) % kWarps;
  values[i] = 1.0F;
  switch (between) {
    case Between::nothing:
      break;
    case Between::barrier:
      __syncthreads();
      break;
    case Between::warp_barrier:
      __syncwarp();
      break;
    case Between::shuffle:
      __shfl_sync(0xFFFFFFFFU, i, 0);
  }
  y[i] = values[32 * warp + (i + distance) % 32];
}
constexpr int kReadLine = __LINE__ - 2;

TEST_F(Counters, RacesAreFaults) {
  DeviceArray<float> y(kThreadsOfBlock, 0.0F);
  const auto race = [&](int distance, Between between) {
    return fault_of(neighbour_kernel, y.data(), distance, between);
  };
  EXPECT_EQ(race(0, Between::nothing), "");
  for (const int distance : {1, 32}) {
    EXPECT_EQ(race(distance, Between::barrier), "");
    expect_parts(race(distance, Between::nothing),
                 {"neighbour_kernel", "thread (", "with no barrier between", "shared memory that",
                  "counters_test.cpp:" + std::to_string(kReadLine)});
    EXPECT_NE(race(distance, Between::shuffle), "");
  }
  EXPECT_EQ(race(1, Between::warp_barrier), "");
  EXPECT_NE(race(32, Between::warp_barrier), "");
}

// A sum is reused before all threads have read it.
__global__ void reuse_kernel(float* y, bool apart) {
  __shared__ float value;
  float sum = 0.0F;
  for (unsigned round = 0; round < 2; ++round) {
    if (threadIdx.x == 32 * round) {
      value = 1.0F;
    }
    __syncthreads();
    sum += value;
    if (apart) {
      __syncthreads();
    }
  }
  y[threadIdx.x] = sum;
}

TEST_F(Counters, OverwritingWhatOthersStillReadIsARace) {
  DeviceArray<float> y(kThreadsOfBlock, 0.0F);
  EXPECT_EQ(fault_of(reuse_kernel, y.data(), true), "");
  expect_parts(fault_of(reuse_kernel, y.data(), false), {"writes shared memory", "read at"});
}

__global__ void atomic_kernel(int* y, bool plain) {
  __shared__ int count;
  if (threadIdx.x == 0) {
    count = 0;
  }
  __syncthreads();
  if (plain && threadIdx.x == 77) {
    count = count + 1;
  } else {
    atomicAdd(&count, 1);
  }
  __syncthreads();
  y[threadIdx.x] = count;
}

TEST_F(Counters, AtomicsRaceWithOthersOnly) {
  DeviceArray<int> y(kThreadsOfBlock, 0);
  EXPECT_EQ(fault_of(atomic_kernel, y.data(), false), "");
  EXPECT_EQ(y.values()[5], static_cast<int>(kThreadsOfBlock));
  EXPECT_NE(fault_of(atomic_kernel, y.data(), true), "");
}

__global__ void least_kernel(int* least, float* sum) {
  atomicMin(least, static_cast<int>(blockDim.x - threadIdx.x));
  atomicAdd(sum, 1.0F);
}

// Each operation is one request, whatever the others did before.
TEST_F(Counters, AtomicsAreOneRequestToReadAndToWrite) {
  DeviceArray<int> least(1, 1000);
  DeviceArray<float> sum(1, 0.0F);
  const KernelCounts counts = counts_of(least_kernel, least.data(), sum.data());
  for (const GlobalCounts& side : {counts.read, counts.written}) {
    EXPECT_EQ(side.requests, 2 * kWarps);
    EXPECT_EQ(side.sectors, 2 * kWarps);
    EXPECT_EQ(side.distinct, 8);
  }
  EXPECT_EQ(*least, 1);
  EXPECT_EQ(*sum, static_cast<float>(kThreadsOfBlock));
}

// Accesses columns of a matrix in shared memory.
template <int kPad>
__global__ void columns_kernel(float* y) {
  __shared__ float values[32][32 + kPad];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  for (int row = warp; row < 32; row += kWarps) {
    values[row][lane] = 1.0F;
  }
  __syncthreads();
  y[threadIdx.x] = values[lane][warp];
}

TEST_F(Counters, ColumnsWithoutAPadLieInOneBank) {
  DeviceArray<float> y(kThreadsOfBlock, 0.0F);
  const SharedCounts padded = counts_of(columns_kernel<1>, y.data()).shared;
  EXPECT_EQ(padded.requests, 32 + kWarps);
  EXPECT_EQ(padded.wavefronts, 32 + kWarps);
  EXPECT_EQ(padded.least_wavefronts, 32 + kWarps);
  const SharedCounts dense = counts_of(columns_kernel<0>, y.data()).shared;
  EXPECT_EQ(dense.wavefronts, 32 + 32 * kWarps);
  EXPECT_EQ(dense.least_wavefronts, 32 + kWarps);
}

template <typename T>
__global__ void shared_vectors_kernel(T* y, int stride) {
  __shared__ T values[4 * 32];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  if (threadIdx.x < 32) {
    for (int i = 0; i < 4; ++i) {
      values[32 * i + lane] = T{};
    }
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    y[lane] = values[lane * stride];
  }
}

TEST_F(Counters, VectorsInSharedMemoryGoPartOfAWarpAtATime) {
  DeviceArray<float4> y4(32, {});
  DeviceArray<float2> y2(32, {});
  const auto wavefronts = [](const SharedCounts& counts) {
    EXPECT_EQ(counts.requests, 5);
    return std::pair(counts.wavefronts, counts.least_wavefronts);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(wavefronts(counts_of(shared_vectors_kernel<float4>, y4.data(), 1).shared),
            Pair(20, 20));
  EXPECT_EQ(wavefronts(counts_of(shared_vectors_kernel<float4>, y4.data(), 2).shared),
            Pair(24, 20));
  EXPECT_EQ(wavefronts(counts_of(shared_vectors_kernel<float4>, y4.data(), 0).shared),
            Pair(20, 20));
  EXPECT_EQ(wavefronts(counts_of(shared_vectors_kernel<float2>, y2.data(), 1).shared),
            Pair(10, 10));
  EXPECT_EQ(wavefronts(counts_of(shared_vectors_kernel<float2>, y2.data(), 4).shared),
            Pair(16, 10));
}

// Each thread copies 16 bytes. It reads a neighbour's copy after a barrier, or without one.
__global__ void async_kernel(const float4* x, float4* y, bool apart) {
  __shared__ float4 values[kThreadsOfBlock];
  const auto i = static_cast<int>(threadIdx.x);
  __pipeline_memcpy_async(&values[i], x + i, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  if (apart) {
    __syncthreads();
  }
  y[i] = values[(i + 32) % static_cast<int>(kThreadsOfBlock)];
}

TEST_F(Counters, AsynchronousCopiesAreAccesses) {
  DeviceArray<float4> x(kThreadsOfBlock, {});
  DeviceArray<float4> y(kThreadsOfBlock, {});
  const KernelCounts counts = counts_of(async_kernel, x.data(), y.data(), true);
  EXPECT_EQ(counts.read.requests, kWarps);
  EXPECT_EQ(counts.read.sectors, 16 * kWarps);
  EXPECT_EQ(counts.shared.wavefronts, 8 * kWarps);
  EXPECT_EQ(counts.shared.least_wavefronts, 8 * kWarps);
  EXPECT_NE(fault_of(async_kernel, x.data(), y.data(), false), "");
}

__global__ void dynamic_kernel(int* y, bool apart) {
  auto* values = static_cast<int*>(dynamic_shared_memory());
  const auto i = static_cast<int>(threadIdx.x);
  values[i] = i;
  if (apart) {
    __syncthreads();
  }
  y[i] = values[static_cast<int>(kThreadsOfBlock) - 1 - i];
}

TEST_F(Counters, DynamicSharedMemoryIsSharedMemory) {
  DeviceArray<int> y(kThreadsOfBlock, 0);
  cudaLaunchConfig_t config = {};
  config.blockDim = kThreadsOfBlock;
  config.dynamicSmemBytes = kThreadsOfBlock * sizeof(int);
  ASSERT_EQ(cudaLaunchKernelEx(&config, dynamic_kernel, y.data(), true), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(y.values()[3], static_cast<int>(kThreadsOfBlock) - 4);
  EXPECT_EQ(take_counts().at(0).shared.requests, 2 * kWarps);
  cudaLaunchKernelEx(&config, dynamic_kernel, y.data(), false);
  cudaStreamSynchronize(nullptr);
  expect_parts(take_fault(), {"dynamic_kernel", "with no barrier between"});
}

}  // namespace
}  // namespace cuda_shim
