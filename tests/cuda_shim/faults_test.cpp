// Kernels with the mistakes that the shim must find.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

constexpr unsigned kAll = 0xFFFFFFFFU;

class Faults : public testing::Test {
 protected:
  void TearDown() override { cudaDeviceReset(); }

  // Checks that the kernel fails with a report that has these parts.
  template <typename... Parameters>
  void expect_fault(unsigned threads, void (*kernel)(Parameters...),
                    const std::vector<std::string>& parts) {
    EXPECT_EQ(launch_and_wait(3, threads, kernel), cudaErrorLaunchFailure);
    const std::string text = take_fault();
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
};

__global__ void returns_before_barrier() {
  if (threadIdx.x == 37) {
    return;
  }
  __syncthreads();
}

__global__ void skips_barrier() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __ballot_sync(kAll, 1);
  }
}

TEST_F(Faults, BarrierThatNotAllThreadsReach) {
  expect_fault(64, returns_before_barrier,
               {"waits at __syncthreads, but thread (37,0,0) of block", "has returned"});
  expect_fault(64, skips_barrier, {"waits at __syncthreads", "thread (32,0,0)", "has returned"});
}

__global__ void lane_is_missing() {
  if (threadIdx.x != 9) {
    __shfl_xor_sync(kAll, 1, 1);
  }
}

__global__ void lane_waits_elsewhere() {
  if (threadIdx.x == 9) {
    __syncthreads();
  }
  __syncwarp();
  if (threadIdx.x != 9) {
    __syncthreads();
  }
}

__global__ void masks_differ() {
  __ballot_sync(threadIdx.x == 3 ? 0xFFU : kAll, 1);
}

__global__ void operations_differ() {
  if (threadIdx.x % 2 == 0) {
    __ballot_sync(kAll, 1);
  } else {
    __shfl_sync(kAll, 1, 0);
  }
}

TEST_F(Faults, LanesOfAMaskThatDoNotArrive) {
  expect_fault(32, lane_is_missing,
               {"waits in a shuffle with mask 0xffffffff, but thread (9,0,0)", "has returned"});
  expect_fault(
      32, lane_waits_elsewhere,
      {"waits in __syncwarp with mask 0xffffffff", "thread (9,0,0)", "waits at __syncthreads"});
  expect_fault(32, masks_differ, {"waits in a vote with mask 0xffffffff", "thread (3,0,0)"});
  expect_fault(32, operations_differ, {"waits in a vote", "waits in a shuffle"});
}

__global__ void votes_with_all() {
  __ballot_sync(kAll, 1);
}

__global__ void leaves_itself_out() {
  __ballot_sync(0xFFFFU, 1);
}

__global__ void reads_a_stranger() {
  if (threadIdx.x < 16) {
    __shfl_sync(0xFFFFU, 1, 20);
  }
}

TEST_F(Faults, MasksThatCannotBe) {
  expect_fault(40, votes_with_all, {"with lanes that the block does not have"});
  expect_fault(32, leaves_itself_out, {"has a mask, 0x0000ffff, without itself"});
  expect_fault(32, reads_a_stranger, {"reads lane 20, which its mask, 0x0000ffff, does not name"});
}

__global__ void neighbour_without_barrier(int* wrong) {
  __shared__ int values[64];
  const auto i = static_cast<int>(threadIdx.x);
  values[i] = 0;
  __syncthreads();
  values[i] = i;
  if (values[i ^ 1] != (i ^ 1)) {  // no barrier precedes this read
    *wrong = 1;
  }
  __syncthreads();
}

TEST_F(Faults, AMissingBarrierGivesWrongValues) {
  DeviceArray<int> wrong(1, 0);
  EXPECT_EQ(launch_and_wait(1, 64, neighbour_without_barrier, wrong.data()), cudaSuccess);
  EXPECT_EQ(*wrong, 1);
}

__global__ void writes(int* to) {
  *to = 1;
}

TEST_F(Faults, AreKeptUntilTheReset) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(launch_and_wait(3, 32, lane_is_missing), cudaErrorLaunchFailure);
  DeviceArray<int> value(1, 0);
  EXPECT_EQ(launch_and_wait(1, 1, writes, value.data()), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(*value, 0);
  EXPECT_NE(take_fault(), "");
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(launch_and_wait(1, 1, writes, value.data()), cudaSuccess);
  EXPECT_EQ(*value, 1);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

// Events are reached all the same, so that no thread waits forever.
TEST_F(Faults, DropTheWorkThatWasGivenBefore) {
  DeviceArray<int> value(1, 0);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  std::atomic<bool> go = false;
  const auto wait = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) {
      std::this_thread::yield();
    }
  };
  ASSERT_EQ(cudaLaunchHostFunc(nullptr, wait, &go), cudaSuccess);
  cudaLaunchConfig_t config = {};
  config.blockDim = 32;
  ASSERT_EQ(cudaLaunchKernelEx(&config, lane_is_missing), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(value.data(), 1, sizeof(int), nullptr), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, nullptr), cudaSuccess);
  go = true;
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorLaunchFailure);
  EXPECT_EQ(*value, 0);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// Copies reach the device's memory; the host does not, neither before nor after.
TEST(FaultsDeathTest, HostThatReachesProtectedMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child reads its own environment
  const auto touch = [](bool by_host) {
    setenv("CUDA_SHIM_PROTECT", "1", 1);
    void* data = nullptr;
    cudaMalloc(&data, 5000);
    const int sent = 7;
    int received = 0;
    cudaMemcpy(data, &sent, sizeof(sent), cudaMemcpyHostToDevice);
    cudaMemcpy(&received, data, sizeof(received), cudaMemcpyDeviceToHost);
    if (by_host) {
      received = *static_cast<volatile int*>(data);
    }
    std::_Exit(received == sent ? 0 : 1);
  };
  EXPECT_EXIT(touch(false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(touch(true), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace cuda_shim
