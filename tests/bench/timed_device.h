// A device with a stream, and times of the work on it, which finds nothing in the caches.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/dtype.h"
#include "core/random.h"
#include "core/with_type.h"
#include "device/device.h"
#include "kernels/copy_strided.h"
#include "runtime/profiler.h"

namespace hidup {

// Normal random numbers times `scale`, to be repeated.
inline std::vector<float> normal_numbers(int64_t count, float scale) {
  const RandomStream numbers = random_stream(1, "bench");
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * numbers.normal(i);
  }
  return values;
}

class TimedDevice {
 public:
  // flush_bytes: that are written before what is timed; 0: enough for the device's cache.
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

  // Work given later finds nothing in the caches.
  void flush() { kernels::fill_zero(*stream_, flush_->data(), flush_->bytes()); }

  // Repeats the values, rounded, over that many elements.
  void fill(std::byte* to, int64_t elements, DType dtype, const std::vector<float>& values) {
    with_floating_type(dtype, [&](auto zero) {
      using Element = decltype(zero);
      std::vector<Element> rounded;
      rounded.reserve(values.size());
      for (const float value : values) {
        rounded.push_back(Element(value));
      }
      constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
      const auto period = static_cast<int64_t>(rounded.size());
      for (int64_t at = 0; at < elements; at += period) {
        stream_->copy(to + at * kBytes, rounded.data(), std::min(period, elements - at) * kBytes);
      }
      stream_->synchronize();
    });
  }

  std::unique_ptr<Buffer> random(int64_t elements, DType dtype) {
    std::unique_ptr<Buffer> buffer = device_->allocate(elements * size_of(dtype));
    fill(buffer->data(), elements, dtype,
         normal_numbers(std::min<int64_t>(elements, 1 << 20), 1.0F));
    return buffer;
  }

  // Seconds of each of `repetitions`, after two more that warm up.
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
  // Twice the cache, which does not drop the oldest first. The least is several times the L2 of any
  // GPU so far, where the device's own is not known.
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
