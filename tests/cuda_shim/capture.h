// What streams that capture are given, inside the shim. One lock guards all of it.
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
    std::shared_ptr<CudaShimEvent::State> event = nullptr;  // that it records, if it does
    size_t lane = 0;                                        // the stream that it was given to
    std::vector<size_t> after = {};                         // nodes
  };
  std::vector<Node> nodes;
  size_t lanes = 1;
};

namespace cuda_shim {

struct Capture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;                // that began it
  std::vector<CudaShimStream*> streams;  // by lane; the first began it
  bool active = true;                    // until its end
  bool valid = true;                     // until a call that it forbids
  CudaShimGraph graph;
};

// Each says what CUDA answers, or nothing where no capture is concerned and the call does what it
// does otherwise.

// Work for a stream becomes a node of the graph that it is captured in. `event`: that it records.
std::optional<cudaError_t> capture_work(CudaShimStream& stream, std::function<void()> work,
                                        std::shared_ptr<CudaShimEvent::State> event = nullptr);
// A record is a mark in the graph, which a later wait makes an edge; the stream that waits is
// captured from there on.
std::optional<cudaError_t> capture_record(CudaShimEvent& event, CudaShimStream& stream);
std::optional<cudaError_t> capture_wait(CudaShimEvent& event, CudaShimStream& stream);

// A call that waits for what a GPU does, or may ("potentially unsafe"), by the calling thread.
std::optional<cudaError_t> refuse_unsafe();
// The same of one that waits for a stream or an event, or asks how far it is. What is captured runs
// nowhere.
std::optional<cudaError_t> refuse_wait(CudaShimStream& stream);
std::optional<cudaError_t> refuse_wait(CudaShimEvent& event);

// A stream that is destroyed.
void forget(CudaShimStream& stream);

}  // namespace cuda_shim
