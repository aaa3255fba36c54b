// Streams and events, inside the shim.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda_runtime.h"

namespace cuda_shim {
struct Capture;
}

// A place in what is captured. Only capture.cpp reads and writes it, under its lock.
struct CudaShimCaptured {
  std::shared_ptr<cuda_shim::Capture> by = nullptr;
  size_t lane = 0;
  std::vector<size_t> last = {};  // nodes that what comes next comes after
};

struct CudaShimStream {
 public:
  CudaShimStream();
  ~CudaShimStream();  // after all work
  CudaShimStream(const CudaShimStream&) = delete;
  CudaShimStream& operator=(const CudaShimStream&) = delete;

  // Captured where the stream is; dropped after a fault.
  cudaError_t give(std::function<void()> task);
  // Neither.
  void give_always(std::function<void()> task);
  void synchronize();
  bool idle();

  CudaShimCaptured captured;

 private:
  struct Task {
    std::function<void()> run;
    bool always;
  };

  void work();

  std::mutex mutex_;
  std::condition_variable given_;
  std::condition_variable drained_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool closing_ = false;
  std::thread worker_;  // last: it uses all of the above
};

struct CudaShimEvent {
  struct State {
    explicit State(bool is_timed) : timed(is_timed) {}
    int64_t expect();               // the number of a recording to come
    void reach(int64_t recording);  // now
    std::mutex mutex;
    std::condition_variable changed;
    bool timed;
    int64_t given = 0;    // recordings asked for
    int64_t reached = 0;  // recordings done
    double milliseconds = 0.0;
  };
  bool recorded() const;  // ever, outside of captures

  // Also held by streams: an event may be destroyed before it is reached.
  std::shared_ptr<State> state;
  CudaShimCaptured captured = {};  // where its last recording was, if in a capture
};
