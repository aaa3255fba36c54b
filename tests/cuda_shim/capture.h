// Captured work of streams, inside the shim. One lock guards all of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "stream.h"

struct CudaShimGraph {
  struct Node {
    std::function<void()> work;
    std::shared_ptr<CudaShimEvent::State> event = nullptr;  // the event that it records, if any
    size_t lane = 0;                                        // of the stream that it was given to
    std::vector<size_t> after = {};                         // nodes that precede it
  };
  std::vector<Node> nodes;
  size_t lanes = 1;
};

namespace cuda_shim {

struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;                // the thread that began it
  std::vector<CudaShimStream*> streams;  // by lane; the first began it
  bool active = true;                    // until its end
  bool valid = true;                     // until a forbidden call
  CudaShimGraph graph;
};

// Each function returns CUDA's answer, or nothing where the call concerns no capture and does its
// usual work.

// Adds work to the graph that the stream is captured in; `event` is the event that it records.
std::optional<cudaError_t> capture_work(CudaShimStream& stream, std::function<void()> work,
                                        std::shared_ptr<CudaShimEvent::State> event = nullptr);
// Records a mark in the graph. A later wait turns it into an edge, and captures the waiting stream
// from there on.
std::optional<cudaError_t> capture_record(CudaShimEvent& event, CudaShimStream& stream);
std::optional<cudaError_t> capture_wait(CudaShimEvent& event, CudaShimStream& stream);

// Refuses a call by this thread that waits, or may wait ("potentially unsafe"), for a GPU's work.
std::optional<cudaError_t> refuse_unsafe();
// Refuses a call that waits for a stream or an event, or asks for its progress: captured work runs
// nowhere.
std::optional<cudaError_t> refuse_wait(CudaShimStream& stream);
std::optional<cudaError_t> refuse_wait(CudaShimEvent& event);

// Forgets a stream that is destroyed.
void forget(CudaShimStream& stream);

}  // namespace cuda_shim
