// A device with a stream, and times of the work on it with cold caches.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/median.h"
#include "device/device.h"
#include "kernels/copy_strided.h"
#include "runtime/profiler.h"

namespace hidup {

class TimedDevice {
 public:
  // flush_bytes: written before the timed work; 0: enough for the device's cache.
  TimedDevice(int threads, int64_t flush_bytes)
      : device_(make_device({})),
        stream_(device_->create_stream("compute", threads)),
        flush_(device_->allocate(flush_bytes > 0 ? flush_bytes : enough(device_->cache()))) {
    empty_s_ = median(time(20, [](Stream&) {}));
  }

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  double empty_s() const { return empty_s_; }
  int64_t flush_bytes() const { return flush_->bytes(); }

  // Overwrites the caches, so that later work does not find its data there.
  void flush() { kernels::fill_zero(*stream_, flush_->data(), flush_->bytes()); }

  // Returns the seconds of each of `repetitions`, after two more that warm up.
  template <typename Issue>
  std::vector<double> time(int repetitions, Issue issue) {
    std::vector<double> seconds;
    const std::unique_ptr<Event> start = device_->create_event();
    const std::unique_ptr<Event> end = device_->create_event();
    for (int i = -2; i < repetitions; ++i) {
      flush();
      stream_->record(*start);
      issue(*stream_);
      stream_->record(*end);
      stream_->synchronize();
      if (i >= 0) {
        seconds.push_back(net(*start, *end));
      }
    }
    return seconds;
  }

  double net(const Event& start, const Event& end) const {
    return std::max(end.seconds() - start.seconds() - empty_s_, 0.0);
  }

 private:
  // Returns twice the cache, because it does not evict the oldest data first. If the cache's size
  // is unknown, the minimum is several times the L2 of any GPU so far.
  static int64_t enough(int64_t cache) {
    constexpr int64_t kLeast = int64_t{256} << 20;
    return std::max(2 * cache, kLeast);
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> flush_;
  double empty_s_ = 0.0;  // between two events with nothing between them
};

}  // namespace hidup
