#include "runtime/rates.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>

#include "comm/collective.h"
#include "core/random.h"
#include "core/with_type.h"
#include "kernels/add.h"
#include "kernels/matmul.h"

namespace hidup {
namespace {

// Rows, columns and summed elements of the products.
constexpr int64_t kSmallestSide = 1024;
constexpr int64_t kLargestSide = 8192;
constexpr double kLong = 5e-3;  // seconds; products that take this long are the largest
// Several times the largest cache of a GPU. A CPU cache of this size holds at most half of the
// bytes that are read and written; tensors that surely miss it would take a second.
constexpr int64_t kMeasured = int64_t{256} << 20;  // bytes
constexpr int64_t kFewBytes = int64_t{4} << 20;
constexpr double kLongSum = 0.1;  // seconds; operands whose sum takes this long are the largest

// Returns the minimum of several times after a warm-up; long work is repeated less often.
double seconds_of(Device& device, Stream& stream, const std::function<void()>& issue) {
  constexpr int kRepetitions = 8;
  constexpr double kEnough = 0.3;  // seconds of all repetitions
  const std::unique_ptr<Event> start = device.create_event();
  const std::unique_ptr<Event> end = device.create_event();
  double all_s = 0.0;
  double least_s = std::numeric_limits<double>::max();
  for (int i = 0; i <= kRepetitions && (i < 2 || all_s < kEnough); ++i) {
    stream.record(*start);
    issue();
    stream.record(*end);
    stream.synchronize();
    const double took = end->seconds() - start->seconds();
    if (i > 0) {
      all_s += took;
      least_s = std::min(least_s, took);
    }
  }
  return std::max(least_s, 1e-9);
}

std::unique_ptr<Buffer> random_buffer(Device& device, Stream& stream, int64_t elements,
                                      DType dtype) {
  std::unique_ptr<Buffer> buffer = device.allocate(elements * size_of(dtype));
  fill(stream, buffer->data(), elements, dtype,
       normal_numbers(std::min<int64_t>(elements, 1 << 16), 1.0F));
  return buffer;
}

double flops_of(int64_t n) {
  const auto length = static_cast<double>(n);
  return 2.0 * length * length * length;
}

// Returns true if three f32 matrices take at most a quarter of the memory that the rank may use.
bool fits(const Device& device, int64_t n) {
  return 3 * n * n * size_of(DType::f32) <= device.memory() / 4;
}

double large_product_rate(Device& device, Stream& stream, DType dtype) {
  int64_t n = kSmallestSide;
  while (n > 1 && !fits(device, n)) {
    n /= 2;
  }
  while (true) {
    const double rate = product_rate(device, stream, n, dtype);
    if (2 * n > kLargestSide || flops_of(n) >= kLong * rate || !fits(device, 2 * n)) {
      return rate;
    }
    n *= 2;
  }
}

double large_memory_rate(Device& device, Stream& stream) {
  const int64_t most = std::min(kMeasured, device.memory() / 8 / kAlignment * kAlignment);
  for (int64_t bytes = std::min(kFewBytes, most);; bytes = std::min(4 * bytes, most)) {
    const double rate = memory_rate(device, stream, bytes);
    if (bytes == most || 3.0 * static_cast<double>(bytes) >= kLongSum * rate) {
      return rate;
    }
  }
}

}  // namespace

std::vector<float> normal_numbers(int64_t count, float scale) {
  const RandomStream numbers = random_stream(1, "rates");
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * numbers.normal(i);
  }
  return values;
}

void fill(Stream& stream, std::byte* to, int64_t elements, DType dtype,
          const std::vector<float>& values) {
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
      stream.copy(to + at * kBytes, rounded.data(), std::min(period, elements - at) * kBytes);
    }
    stream.synchronize();
  });
}

double product_rate(Device& device, Stream& stream, int64_t n, DType dtype) {
  const std::unique_ptr<Buffer> a = random_buffer(device, stream, n * n, dtype);
  const std::unique_ptr<Buffer> b = random_buffer(device, stream, n * n, dtype);
  const std::unique_ptr<Buffer> c = device.allocate(n * n * size_of(dtype));
  double seconds = 0.0;
  with_floating_type(dtype, [&](auto zero) {
    using Element = decltype(zero);
    const auto elements = [](Buffer& buffer) { return reinterpret_cast<Element*>(buffer.data()); };
    seconds = seconds_of(device, stream, [&] {
      kernels::matmul<Element, Element>(stream, elements(*a), elements(*b), elements(*c),
                                        {.m = n, .n = n, .k = n}, false);
    });
  });
  return flops_of(n) / seconds;
}

double memory_rate(Device& device, Stream& stream, int64_t bytes) {
  const int64_t elements = bytes / size_of(DType::f32);
  const std::unique_ptr<Buffer> from = random_buffer(device, stream, elements, DType::f32);
  const std::unique_ptr<Buffer> to = random_buffer(device, stream, elements, DType::f32);
  const double copy_s =
      seconds_of(device, stream, [&] { stream.copy(to->data(), from->data(), bytes); });
  const auto* const a = reinterpret_cast<const float*>(from->data());
  auto* const y = reinterpret_cast<float*>(to->data());
  const double sum_s =
      seconds_of(device, stream, [&] { kernels::add_forward(stream, a, y, y, elements); });
  return static_cast<double>(bytes) * std::max(2.0 / copy_s, 3.0 / sum_s);
}

DeviceRates measure_own_rates(Device& device, Communicator& world, int threads,
                              const std::set<DType>& types) {
  std::unique_ptr<Stream> stream;
  collectively(world, [&] { stream = device.create_stream("compute", threads); });
  DeviceRates rates;
  for (const DType dtype : types) {
    collectively(world,
                 [&] { rates.products[dtype] = large_product_rate(device, *stream, dtype); });
  }
  collectively(world, [&] { rates.memory = large_memory_rate(device, *stream); });
  return rates;
}

DeviceRates slowest_rates(Communicator& world, const DeviceRates& mine,
                          const std::function<bool(int64_t rank)>& counts) {
  DeviceRates rates = mine;
  const auto slowest = [&](double of_rank) {
    const std::vector<double> all = all_gather_value(world, of_rank);
    double least = std::numeric_limits<double>::infinity();
    for (size_t rank = 0; rank < all.size(); ++rank) {
      least = counts(static_cast<int64_t>(rank)) ? std::min(least, all[rank]) : least;
    }
    return least;
  };
  for (auto& [dtype, rate] : rates.products) {
    rate = slowest(rate);
  }
  rates.memory = slowest(rates.memory);
  return rates;
}

}  // namespace hidup
