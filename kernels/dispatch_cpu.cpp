#include "kernels/dispatch.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu_math.h"

namespace hidup::kernels {
namespace {

int64_t slots_of(const DispatchSize& size) {
  return size.experts * size.capacity;
}

// The slot of an entry among the slots_of(size) that are here, or -1.
int64_t slot_of(int32_t entry, const DispatchSize& size) {
  const int64_t slot = entry - size.first_expert * size.capacity;
  return entry >= 0 && slot >= 0 && slot < slots_of(size) ? slot : -1;
}

// [batch, slots]: which entry of its sequence, s * choices + c, names the slot; -1 if none. Valid
// until the next call on this thread.
const int32_t* entries_of_slots(const int32_t* routing, const DispatchSize& size) {
  thread_local std::vector<int32_t> memory;
  const int64_t slots = slots_of(size);
  const int64_t entries = size.sequence * size.choices;
  int32_t* found = scratch(memory, size.batch * slots);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < size.batch; ++b) {
    std::fill_n(found + b * slots, slots, -1);
    for (int64_t i = 0; i < entries; ++i) {
      const int64_t slot = slot_of(routing[b * entries + i], size);
      if (slot >= 0) {
        found[b * slots + slot] = static_cast<int32_t>(i);
      }
    }
  }
  return found;
}

void scale_row(const float* row, float weight, int64_t width, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    out[j] = weight * row[j];
  }
}

void add_row(const float* row, float weight, int64_t width, float* out) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    out[j] += weight * row[j];
  }
}

// y[b, s, :] = the sum over c of weights[b, s, c] (1 without weights) * the row of the entry.
void sum_rows(const float* buffer, const int32_t* routing, const float* weights, float* y,
              const DispatchSize& size) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < size.batch * size.sequence; ++t) {
    float* out = y + t * size.width;
    bool written = false;
    for (int64_t i = t * size.choices; i < (t + 1) * size.choices; ++i) {
      const int64_t slot = slot_of(routing[i], size);
      if (slot < 0) {
        continue;
      }
      const float* row = buffer + (t / size.sequence * slots_of(size) + slot) * size.width;
      const float weight = weights != nullptr ? weights[i] : 1.0F;
      if (written) {
        add_row(row, weight, size.width, out);
      } else {
        scale_row(row, weight, size.width, out);
      }
      written = true;
    }
    if (!written) {
      std::fill_n(out, size.width, 0.0F);
    }
  }
}

}  // namespace

void dispatch_forward(Stream& stream, const float* x, const int32_t* routing, float* buffer,
                      DispatchSize size) {
  stream.enqueue([=] {
    const int64_t slots = slots_of(size);
    const int32_t* entries = entries_of_slots(routing, size);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < size.batch * slots; ++row) {
      float* out = buffer + row * size.width;
      if (entries[row] < 0) {
        std::fill_n(out, size.width, 0.0F);
      } else {
        const int64_t token = row / slots * size.sequence + entries[row] / size.choices;
        std::copy_n(x + token * size.width, size.width, out);
      }
    }
  });
}

void dispatch_backward(Stream& stream, const float* dbuffer, const int32_t* routing, float* dx,
                       DispatchSize size) {
  stream.enqueue([=] { sum_rows(dbuffer, routing, nullptr, dx, size); });
}

void combine_forward(Stream& stream, const float* buffer, const int32_t* routing,
                     const float* weights, float* y, DispatchSize size) {
  stream.enqueue([=] { sum_rows(buffer, routing, weights, y, size); });
}

void combine_backward(Stream& stream, const float* buffer, const int32_t* routing,
                      const float* weights, const float* dy, float* dbuffer, float* dweights,
                      DispatchSize size) {
  stream.enqueue([=] {
    const int64_t slots = slots_of(size);
    const int32_t* entries = entries_of_slots(routing, size);
    std::fill_n(dweights, size.batch * size.sequence * size.choices, 0.0F);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < size.batch * slots; ++row) {
      float* out = dbuffer + row * size.width;
      if (entries[row] < 0) {
        std::fill_n(out, size.width, 0.0F);
        continue;
      }
      const int64_t entry = row / slots * size.sequence * size.choices + entries[row];
      const float* result = buffer + row * size.width;
      const float* gradient = dy + entry / size.choices * size.width;
      dweights[entry] = sum_of(size.width, [=](int64_t j) { return result[j] * gradient[j]; });
      scale_row(gradient, weights[entry], size.width, out);
    }
  });
}

}  // namespace hidup::kernels
