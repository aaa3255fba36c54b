#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

using namespace std::chrono_literals;

TEST(Memory, IsPoisonedAligned) {
  float* data = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&data), 1000 * sizeof(float)), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0U);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(std::isnan(data[i]));
  }
  EXPECT_EQ(cudaMemset(data, 0, 500 * sizeof(float)), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(data[499], 0.0F);
  EXPECT_TRUE(std::isnan(data[500]));
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Memory, WritesAroundItAreReported) {
  for (const int at : {-256, -1, 1001, 1256}) {
    char* data = nullptr;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&data), 1001), cudaSuccess);
    data[0] = 1;
    data[1000] = 1;
    data[at] = 1;
    EXPECT_EQ(cudaFree(data), cudaErrorIllegalAddress) << at;
    EXPECT_NE(take_fault().find("1001 bytes"), std::string::npos);
  }
}

TEST(Memory, WhatCannotBeIsRefused) {
  void* data = &data;
  EXPECT_EQ(cudaMalloc(&data, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(data, nullptr);
  int value = 0;
  EXPECT_EQ(cudaFree(&value), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(nullptr, &value, 4, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, &value, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_STREQ(cudaGetErrorString(cudaGetLastError()), "invalid argument");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_LE(free, total);
}

TEST(Memory, WhatThisProcessAndOthersUseIsNotFree) {
  const auto free_memory = [] {
    size_t free = 0;
    size_t total = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return free;
  };
  const size_t before = free_memory();
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 12345), cudaSuccess);
  EXPECT_EQ(free_memory(), before - 12345);
  setenv("CUDA_SHIM_USED_MEMORY", "20000000000000", 1);
  EXPECT_EQ(free_memory(), 0U);
  void* none = nullptr;
  EXPECT_EQ(cudaMalloc(&none, 1), cudaErrorMemoryAllocation);
  setenv("CUDA_SHIM_USED_MEMORY", "1000000", 1);
  EXPECT_EQ(free_memory(), before - 12345 - 1000000);
  unsetenv("CUDA_SHIM_USED_MEMORY");
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(free_memory(), before);
  cudaGetLastError();
}

class Streams : public testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t* stream : {&a_, &b_}) {
      ASSERT_EQ(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0), cudaSuccess);
    }
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDefault), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned_), 3 * sizeof(int)), cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b_), cudaSuccess);
  }

  // Holds a stream until go_ is set.
  void hold(cudaStream_t stream) {
    const auto wait = [](void* go) {
      while (!*static_cast<std::atomic<bool>*>(go)) {
        std::this_thread::sleep_for(1ms);
      }
    };
    ASSERT_EQ(cudaLaunchHostFunc(stream, wait, &go_), cudaSuccess);
  }

  std::atomic<bool> go_ = false;
  int* pinned_ = nullptr;  // three integers
  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(Streams, WorkIsAsynchronousAndInOrder) {
  auto& [x, y, z] = *reinterpret_cast<int(*)[3]>(pinned_);
  x = 1;
  y = 0;
  hold(a_);
  ASSERT_EQ(cudaMemcpyAsync(&y, &x, sizeof(int), cudaMemcpyDefault, a_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&z, &y, sizeof(int), cudaMemcpyDefault, a_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(&y, 0xFF, sizeof(int), a_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(a_), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(b_), cudaSuccess);  // streams run concurrently
  EXPECT_EQ(y, 0);
  go_ = true;
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(z, 1);
  EXPECT_EQ(y, -1);
}

// The host waits for copies of memory that is not pinned, as it may on a GPU.
TEST_F(Streams, CopiesOfOtherMemoryAreNot) {
  int& x = pinned_[0];
  int other = 0;
  x = 7;
  hold(a_);
  std::thread later([this] {
    std::this_thread::sleep_for(3ms);
    go_ = true;
  });
  ASSERT_EQ(cudaMemcpyAsync(&other, &x, sizeof(int), cudaMemcpyDefault, a_), cudaSuccess);
  EXPECT_TRUE(go_);
  EXPECT_EQ(other, 7);
  other = 8;
  ASSERT_EQ(cudaMemcpyAsync(&x, &other, sizeof(int), cudaMemcpyDefault, a_), cudaSuccess);
  EXPECT_EQ(x, 8);
  later.join();
}

TEST_F(Streams, EventsOrderStreams) {
  auto& [x, y, z] = *reinterpret_cast<int(*)[3]>(pinned_);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);  // never recorded
  hold(a_);
  ASSERT_EQ(cudaMemsetAsync(&x, 0x01, sizeof(int), a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(b_, event_, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(&y, &x, sizeof(int), cudaMemcpyDefault, b_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  go_ = true;
  EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
  EXPECT_EQ(y, 0x01010101);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);
}

TEST_F(Streams, EventsMeasureTimeBothWays) {
  cudaEvent_t end = nullptr;
  cudaEvent_t untimed = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
  float ms = 0.0F;
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  const auto sleep = [](void*) { std::this_thread::sleep_for(3ms); };
  ASSERT_EQ(cudaLaunchHostFunc(a_, sleep, nullptr), cudaSuccess);
  hold(a_);
  ASSERT_EQ(cudaEventRecord(end, a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, a_), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, end), cudaErrorNotReady);
  go_ = true;
  EXPECT_EQ(cudaEventSynchronize(untimed), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, end), cudaSuccess);
  EXPECT_GE(ms, 3.0F);
  float back = 0.0F;
  EXPECT_EQ(cudaEventElapsedTime(&back, end, event_), cudaSuccess);
  EXPECT_EQ(back, -ms);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_, untimed), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(untimed), cudaSuccess);
}

// A stream is destroyed after its work; an event's destruction does not disturb its waiters.
TEST_F(Streams, MayEndBeforeTheirWork) {
  int x = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  hold(a_);
  ASSERT_EQ(cudaEventRecord(event, a_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(&x, 0xFF, sizeof(int), stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  go_ = true;
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(x, -1);
}

TEST(Device, TellsWhatItIs) {
  cudaDeviceProp properties;
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.warpSize, 32);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  cudaGetLastError();
  int least = 0;
  int greatest = 0;
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_LT(greatest, least);
}

}  // namespace
}  // namespace cuda_shim
