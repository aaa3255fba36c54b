// Independent work on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace hidup {

// work(0), ..., work(count - 1), on as many threads. Throws what the first that fails throws.
template <typename Work>
void in_parallel(size_t count, size_t threads, const Work& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
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
  for (size_t t = 1; t < std::min(threads, count); ++t) {
    others.emplace_back(run);
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
