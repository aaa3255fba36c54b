// Captured streams and the graphs made from them.
#include <atomic>
#include <thread>
#include <vector>

#include "shim_test.h"

namespace cuda_shim {
namespace {

__global__ void add(int* to, const int* from) {
  *to += *from;
}

class Captures : public testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t* stream : {&a_, &b_}) {
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
    }
    for (cudaEvent_t* event : {&fork_, &join_}) {
      ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDefault), cudaSuccess);
    }
  }
  void TearDown() override {
    EXPECT_EQ(cudaEventDestroy(fork_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(join_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b_), cudaSuccess);
    cudaDeviceReset();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(a_, mode), cudaSuccess);
  }
  // Ends the capture and returns its error. Nothing runs in either case.
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(a_, &graph);
    EXPECT_EQ(graph == nullptr, error != cudaSuccess);
    if (graph != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(b_), cudaSuccess);
    return error;
  }
  cudaGraphExec_t end_with_graph() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority),
              cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return exec;
  }
  void order(cudaEvent_t event, cudaStream_t first, cudaStream_t second) {
    ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  }
  static void launch_add(cudaStream_t stream, int* to, int* from) {
    cudaLaunchConfig_t config = {};
    config.stream = stream;
    ASSERT_EQ(cudaLaunchKernelEx(&config, add, to, from), cudaSuccess);
  }

  cudaStream_t a_ = nullptr;
  cudaStream_t b_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
};

TEST_F(Captures, AreToldOf) {
  const auto status_of = [](cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  };
  EXPECT_EQ(status_of(a_), cudaStreamCaptureStatusNone);
  begin();
  EXPECT_EQ(status_of(a_), cudaStreamCaptureStatusActive);
  EXPECT_EQ(status_of(b_), cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(status_of(a_), cudaStreamCaptureStatusInvalidated);
  EXPECT_NE(end(), cudaSuccess);
  EXPECT_EQ(status_of(a_), cudaStreamCaptureStatusNone);
}

// Kernels, copies and host functions of two streams run at the launch, not before.
TEST_F(Captures, RunAtEveryLaunchInOrder) {
  DeviceArray<int> x(1, 0);
  DeviceArray<int> y(1, 0);
  DeviceArray<int> one(1, 1);
  std::vector<int> seen;
  struct Look {
    int* value;
    std::vector<int>* seen;
  } look{y.data(), &seen};
  const auto append = [](void* data) {
    const auto* at = static_cast<Look*>(data);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    at->seen->push_back(*at->value);
  };
  begin();
  launch_add(a_, x.data(), one.data());
  order(fork_, a_, b_);
  ASSERT_EQ(cudaMemcpyAsync(y.data(), x.data(), sizeof(int), cudaMemcpyDefault, b_), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(b_, append, &look), cudaSuccess);
  order(join_, b_, a_);
  ASSERT_EQ(cudaMemsetAsync(y.data(), 0, sizeof(int), a_), cudaSuccess);
  const cudaGraphExec_t exec = end_with_graph();
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(*x, 0);
  for (int launch = 0; launch < 20; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  ASSERT_EQ(seen.size(), 20U);
  for (int launch = 0; launch < 20; ++launch) {
    EXPECT_EQ(seen[static_cast<size_t>(launch)], launch + 1);
  }
  EXPECT_EQ(*y, 0);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

// A stream without an edge to the other does not wait for it.
TEST_F(Captures, BranchesRunBesideEachOther) {
  std::atomic<int> met = 0;
  const auto meet = [](void* data) {
    auto& count = *static_cast<std::atomic<int>*>(data);
    ++count;
    while (count % 2 != 0) {  // ends only if both run
      std::this_thread::yield();
    }
  };
  begin();
  order(fork_, a_, b_);
  ASSERT_EQ(cudaLaunchHostFunc(a_, meet, &met), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(b_, meet, &met), cudaSuccess);
  order(join_, b_, a_);
  const cudaGraphExec_t exec = end_with_graph();
  EXPECT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_EQ(met, 2);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(Captures, ExternalEventsHaveTheTimesOfTheLaunch) {
  std::atomic<bool> go = false;
  const auto hold = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) {
      std::this_thread::yield();
    }
  };
  EXPECT_EQ(cudaEventRecordWithFlags(fork_, a_, cudaEventRecordExternal), cudaErrorInvalidValue);
  begin();
  ASSERT_EQ(cudaEventRecordWithFlags(fork_, a_, cudaEventRecordExternal), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(a_, hold, &go), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(join_, a_, cudaEventRecordExternal), cudaSuccess);
  const cudaGraphExec_t exec = end_with_graph();
  EXPECT_EQ(cudaEventQuery(join_), cudaSuccess);  // never recorded
  float ms = 0.0F;
  for (int launch = 0; launch < 3; ++launch) {
    go = false;
    ASSERT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(join_), cudaErrorNotReady);
    std::this_thread::sleep_for(std::chrono::milliseconds(launch == 0 ? 4 : 1));
    go = true;
    ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(join_), cudaSuccess);
    const float before = ms;
    EXPECT_EQ(cudaEventElapsedTime(&ms, fork_, join_), cudaSuccess);
    EXPECT_GE(ms, 0.0F);
    EXPECT_NE(ms, before);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(Captures, AFaultInALaunchIsReported) {
  DeviceArray<int> value(1, 0);
  DeviceArray<int> one(1, 1);
  __global__ void (*const fails)() = [] {
    if (threadIdx.x == 0) {
      __syncthreads();
    }
  };
  begin();
  cudaLaunchConfig_t config = {};
  config.blockDim = 32;
  config.stream = a_;
  ASSERT_EQ(cudaLaunchKernelEx(&config, fails), cudaSuccess);
  ASSERT_EQ(cudaEventRecordWithFlags(join_, a_, cudaEventRecordExternal), cudaSuccess);
  launch_add(a_, value.data(), one.data());
  const cudaGraphExec_t exec = end_with_graph();
  EXPECT_EQ(cudaGraphLaunch(exec, a_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaEventQuery(join_), cudaSuccess);  // or a waiting host would never return
  EXPECT_EQ(*value, 0);
  EXPECT_EQ(cudaGraphLaunch(exec, a_), cudaErrorLaunchFailure);
  EXPECT_NE(take_fault(), "");
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
}

TEST_F(Captures, EveryForkMustBeJoined) {
  DeviceArray<int> x(1, 0);
  begin();
  order(fork_, a_, b_);
  ASSERT_EQ(cudaMemsetAsync(x.data(), 1, sizeof(int), b_), cudaSuccess);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  begin();
  order(fork_, a_, b_);
  order(join_, b_, a_);
  ASSERT_EQ(cudaMemsetAsync(x.data(), 1, sizeof(int), b_), cudaSuccess);  // after the join
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(*x, 0);
  begin();
  EXPECT_EQ(end(), cudaSuccess);
}

// Each wait is refused and invalidates the capture.
TEST_F(Captures, DoNotWaitForWhatRunsNow) {
  cudaEvent_t outside = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&outside, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(outside, b_), cudaSuccess);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(a_, outside, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaMemsetAsync(&outside, 0, 1, a_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  for (const auto wait : {cudaStreamSynchronize, cudaStreamQuery}) {
    begin();
    EXPECT_EQ(wait(a_), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  }
  for (const auto wait : {cudaEventSynchronize, cudaEventQuery}) {
    begin();
    ASSERT_EQ(cudaEventRecord(fork_, a_), cudaSuccess);
    EXPECT_EQ(wait(fork_), cudaErrorCapturedEvent);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(wait(fork_), cudaErrorCapturedEvent);  // until it is recorded again
    EXPECT_EQ(cudaStreamWaitEvent(b_, fork_, 0), cudaErrorCapturedEvent);
    ASSERT_EQ(cudaEventRecord(fork_, a_), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(fork_), cudaSuccess);
  }
  EXPECT_EQ(cudaEventDestroy(outside), cudaSuccess);
}

TEST_F(Captures, ForbidUnsafeCallsByTheirMode) {
  const auto allocates = [] {
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, 16);
    cudaFree(data);
    return error;
  };
  const auto on_another_thread = [&allocates] {
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = allocates(); }).join();
    return error;
  };
  constexpr cudaError_t kRefused = cudaErrorStreamCaptureUnsupported;
  constexpr cudaError_t kInvalid = cudaErrorStreamCaptureInvalidated;
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(allocates(), cudaSuccess);
  EXPECT_EQ(on_another_thread(), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(on_another_thread(), cudaSuccess);
  EXPECT_EQ(allocates(), kRefused);
  EXPECT_EQ(end(), kInvalid);
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(on_another_thread(), kRefused);
  EXPECT_EQ(end(), kInvalid);
  begin();
  int value = 0;
  EXPECT_EQ(cudaMemcpy(&value, &value, 4, cudaMemcpyDefault), kRefused);
  EXPECT_EQ(end(), kInvalid);
  begin();
  EXPECT_EQ(cudaStreamSynchronize(b_), kRefused);  // of another stream
  EXPECT_EQ(end(), kInvalid);
}

TEST_F(Captures, BeginAndEndOnce) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  order(fork_, a_, b_);
  EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaErrorStreamCaptureUnmatched);
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Captures, DoNotMerge) {
  begin();
  ASSERT_EQ(cudaStreamBeginCapture(b_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork_, a_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(b_, fork_, 0), cudaErrorStreamCaptureMerge);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(b_, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace cuda_shim
