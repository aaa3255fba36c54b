// Runs independent work on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/deadline.h"

namespace hidup {

// Calls work(0), ..., work(count - 1) on up to `threads` threads, or fewer if the system starts no
// more. The threads inherit this thread's TimeLimit. Rethrows the first exception of the calls.
template <typename Work>
void in_parallel(size_t count, size_t threads, const Work& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const Deadline& limit = TimeLimit::current();
  const auto run = [&] {
    const TimeLimit same(limit);
    try {
      for (size_t i = next++; i < count; i = next++) {
        work(i);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = failure ? failure : std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> others;
  others.reserve(std::min(threads, count));
  try {
    for (size_t t = 1; t < std::min(threads, count); ++t) {
      others.emplace_back(run);
    }
  } catch (const std::system_error&) {  // this thread does the rest
  }
  run();
  for (std::thread& other : others) {
    other.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace hidup
