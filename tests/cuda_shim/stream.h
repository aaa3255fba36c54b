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

// A place in a capture. Only capture.cpp reads and writes it, under its lock.
struct CudaShimCaptured {
  std::shared_ptr<cuda_shim::Capture> by = nullptr;
  size_t lane = 0;
  std::vector<size_t> last = {};  // nodes that precede the next one
};

struct CudaShimStream {
 public:
  CudaShimStream();
  ~CudaShimStream();  // waits for all work
  CudaShimStream(const CudaShimStream&) = delete;
  CudaShimStream& operator=(const CudaShimStream&) = delete;

  // Gives a task to the stream: captured during a capture, dropped after a fault.
  cudaError_t give(std::function<void()> task);
  // Gives a task that is neither captured nor dropped.
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
  std::thread worker_;  // the last member: it uses the others
};

struct CudaShimEvent {
  struct State {
    explicit State(bool is_timed) : timed(is_timed) {}
    int64_t expect();               // returns the number of the next recording
    void reach(int64_t recording);  // marks it as done
    std::mutex mutex;
    std::condition_variable changed;
    bool timed;
    int64_t given = 0;    // recordings asked for
    int64_t reached = 0;  // recordings done
    double milliseconds = 0.0;
  };
  bool recorded() const;  // true if it ever was, outside of captures

  // Streams share it, because an event may be destroyed before it is reached.
  std::shared_ptr<State> state;
  CudaShimCaptured captured = {};  // the place of its last recording, if in a capture
};
