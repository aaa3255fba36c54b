// Streams and events, inside the shim.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cuda_runtime.h"

struct CudaShimStream {
 public:
  CudaShimStream();
  ~CudaShimStream();  // after all work
  CudaShimStream(const CudaShimStream&) = delete;
  CudaShimStream& operator=(const CudaShimStream&) = delete;

  void give(std::function<void()> task);         // dropped after a fault
  void give_always(std::function<void()> task);  // not dropped
  void synchronize();
  bool idle();

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
    std::mutex mutex;
    std::condition_variable changed;
    bool timed;
    int64_t given = 0;    // recordings asked for
    int64_t reached = 0;  // recordings done
    double milliseconds = 0.0;
  };
  std::shared_ptr<State>
      state;  // also held by streams: an event may be destroyed before it is reached
};
