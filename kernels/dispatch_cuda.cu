#include "kernels/cuda_math.h"
#include "kernels/dispatch.h"

namespace hidup::kernels {
namespace {

constexpr int kRows = kThreads / kWarp;  // of a block; a warp does one

__host__ __device__ int64_t slots_of(const DispatchSize& size) {
  return size.experts * size.capacity;
}

// The slot of an entry among the slots_of(size) that are here, or -1.
__device__ int64_t slot_of(int32_t entry, const DispatchSize& size) {
  const int64_t slot = entry - size.first_expert * size.capacity;
  return entry >= 0 && slot >= 0 && slot < slots_of(size) ? slot : -1;
}

// found[b, slot] = which entry of its sequence, s * choices + c, names the slot; no two do.
__global__ void __launch_bounds__(kThreads)
    find_kernel(const int32_t* routing, int32_t* found, DispatchSize size) {
  const int64_t entries = size.sequence * size.choices;
  for (int64_t i = thread_of_grid(); i < size.batch * entries; i += threads_of_grid()) {
    const int64_t slot = slot_of(routing[i], size);
    if (slot >= 0) {
      found[i / entries * slots_of(size) + slot] = static_cast<int32_t>(i % entries);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    dispatch_kernel(const float* x, const int32_t* found, float* buffer, DispatchSize size) {
  const int64_t rows = size.batch * slots_of(size);
  for (int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp) {
    const int32_t entry = found[row];
    const int64_t token = row / slots_of(size) * size.sequence + entry / size.choices;
    for (int64_t j = threadIdx.x % kWarp; j < size.width; j += kWarp) {
      buffer[row * size.width + j] = entry < 0 ? 0.0F : x[token * size.width + j];
    }
  }
}

// y[b, s, :] = the sum over c of weights[b, s, c] (1 without weights) * the row of the entry.
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(const float* buffer, const int32_t* routing, const float* weights, float* y,
                    DispatchSize size) {
  const int64_t tokens = size.batch * size.sequence;
  for (int64_t t = thread_of_grid() / kWarp; t < tokens; t += threads_of_grid() / kWarp) {
    const float* rows = buffer + t / size.sequence * slots_of(size) * size.width;
    for (int64_t j = threadIdx.x % kWarp; j < size.width; j += kWarp) {
      float sum = 0.0F;
      for (int64_t i = t * size.choices; i < (t + 1) * size.choices; ++i) {
        const int64_t slot = slot_of(routing[i], size);
        if (slot >= 0) {
          sum += (weights != nullptr ? weights[i] : 1.0F) * rows[slot * size.width + j];
        }
      }
      y[t * size.width + j] = sum;
    }
  }
}

// dweights was filled with zeros.
__global__ void __launch_bounds__(kThreads)
    combine_backward_kernel(const float* buffer, const int32_t* found, const float* weights,
                            const float* dy, float* dbuffer, float* dweights, DispatchSize size) {
  const int64_t rows = size.batch * slots_of(size);
  for (int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp) {
    const bool named = found[row] >= 0;
    const int64_t entry =
        named ? row / slots_of(size) * size.sequence * size.choices + found[row] : 0;
    const float weight = named ? weights[entry] : 0.0F;
    const float* gradient = dy + entry / size.choices * size.width;
    float product = 0.0F;
    for (int64_t j = threadIdx.x % kWarp; j < size.width; j += kWarp) {
      float out = 0.0F;
      if (named) {
        product += buffer[row * size.width + j] * gradient[j];
        out = weight * gradient[j];
      }
      dbuffer[row * size.width + j] = out;
    }
    product = warp_reduce(product, Sum{});
    if (named && threadIdx.x % kWarp == 0) {
      dweights[entry] = product;
    }
  }
}

// [batch, slots]: which entry names a slot; -1 if none. Valid for the work given next.
const int32_t* entries_of_slots(Stream& stream, const int32_t* routing, const DispatchSize& size) {
  const int64_t bytes = size.batch * slots_of(size) * static_cast<int64_t>(sizeof(int32_t));
  auto* found = static_cast<int32_t*>(cuda_stream(stream).scratch(bytes));
  fill_bytes(stream, found, 0xFF, bytes);
  launch(stream, find_kernel, blocks_for(size.batch * size.sequence * size.choices, kThreads),
         kThreads, routing, found, size);
  return found;
}

void sum_rows(Stream& stream, const float* buffer, const int32_t* routing, const float* weights,
              float* y, const DispatchSize& size) {
  launch(stream, sum_rows_kernel, blocks_for(size.batch * size.sequence, kRows), kThreads, buffer,
         routing, weights, y, size);
}

}  // namespace

void dispatch_forward(Stream& stream, const float* x, const int32_t* routing, float* buffer,
                      DispatchSize size) {
  const int32_t* found = entries_of_slots(stream, routing, size);
  launch(stream, dispatch_kernel, blocks_for(size.batch * slots_of(size), kRows), kThreads, x,
         found, buffer, size);
}

void dispatch_backward(Stream& stream, const float* dbuffer, const int32_t* routing, float* dx,
                       DispatchSize size) {
  sum_rows(stream, dbuffer, routing, nullptr, dx, size);
}

void combine_forward(Stream& stream, const float* buffer, const int32_t* routing,
                     const float* weights, float* y, DispatchSize size) {
  sum_rows(stream, buffer, routing, weights, y, size);
}

void combine_backward(Stream& stream, const float* buffer, const int32_t* routing,
                      const float* weights, const float* dy, float* dbuffer, float* dweights,
                      DispatchSize size) {
  const int32_t* found = entries_of_slots(stream, routing, size);
  fill_bytes(stream, dweights, 0,
             size.batch * size.sequence * size.choices * static_cast<int64_t>(sizeof(float)));
  launch(stream, combine_backward_kernel, blocks_for(size.batch * slots_of(size), kRows), kThreads,
         buffer, found, weights, dy, dbuffer, dweights, size);
}

}  // namespace hidup::kernels
