#include "kernels/cuda_elements.h"
#include "kernels/cuda_packed.h"
#include "kernels/dispatch.h"
#include "kernels/preconditions.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

constexpr int kRows = kThreads / kWarp;  // rows of a block; one per warp

// The entries that name the rows of a buffer, as indices of the routing; -1 for none.
struct NamedRows {
  const int32_t* entry;
  const int32_t* starts;  // of a packed buffer (routing.h); null for others
};

// Returns the end of the rows that entries may name: of a packed buffer only the device knows it.
__device__ int64_t end_of_rows(const DispatchSize& size, const int32_t* starts) {
  return starts != nullptr ? starts[size.experts * size.batch] : rows_of(size);
}

// found[row] = the routing's index of the entry that names the row; no two entries do.
template <bool kPacked>
__global__ void __launch_bounds__(kThreads)
    find_kernel(const int32_t* routing, int32_t* found, const int32_t* starts, DispatchSize size) {
  const int64_t entries = size.sequence * size.choices;
  for (int64_t i = thread_of_grid(); i < size.batch * entries; i += threads_of_grid()) {
    const int64_t row = row_of(routing[i], i / entries, size, kPacked ? starts : nullptr);
    if (row >= 0) {
      found[row] = static_cast<int32_t>(i);
    }
  }
}

// In kernels with vectors V, the width is in vectors.
template <typename V>
__global__ void __launch_bounds__(kThreads)
    dispatch_kernel(const V* x, NamedRows named, V* buffer, DispatchSize size) {
  const int64_t rows = end_of_rows(size, named.starts);
  for (int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp) {
    const int32_t entry = named.entry[row];
    const int64_t token = entry / size.choices;
    for (int64_t j = threadIdx.x % kWarp; j < size.width; j += kWarp) {
      buffer[row * size.width + j] = entry < 0 ? V{} : x[token * size.width + j];
    }
  }
}

// y[b, s, :] = the sum over c of weights[b, s, c] (1 without weights) * the row of the entry.
template <typename V, typename Element, bool kPacked>
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(const Element* buffer, const int32_t* routing, const int32_t* starts,
                    const float* weights, Element* y, DispatchSize size) {
  const int64_t tokens = size.batch * size.sequence;
  for (int64_t t = thread_of_grid() / kWarp; t < tokens; t += threads_of_grid() / kWarp) {
    const int64_t b = t / size.sequence;
    for (int64_t j = threadIdx.x % kWarp; j < size.width; j += kWarp) {
      float sums[V::kSize] = {};
      for (int64_t i = t * size.choices; i < (t + 1) * size.choices; ++i) {
        const int64_t row = row_of(routing[i], b, size, kPacked ? starts : nullptr);
        if (row >= 0) {
          const float weight = weights != nullptr ? weights[i] : 1.0F;
          const V values = reinterpret_cast<const V*>(buffer)[row * size.width + j];
          for (int e = 0; e < V::kSize; ++e) {
            sums[e] += weight * widen(values.element[e]);
          }
        }
      }
      reinterpret_cast<V*>(y)[t * size.width + j] = narrow<Element>(sums);
    }
  }
}

// Expects zeros in dweights.
template <typename V, typename Element>
__global__ void __launch_bounds__(kThreads)
    combine_backward_kernel(CombineBackward<Element> args, NamedRows named) {
  const DispatchSize& size = args.size;
  const int64_t rows = end_of_rows(size, named.starts);
  for (int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp) {
    const bool is_named = named.entry[row] >= 0;
    const int64_t entry = is_named ? named.entry[row] : 0;
    const float weight = is_named ? args.weights[entry] : 0.0F;
    const V* gradient = reinterpret_cast<const V*>(args.dy) + entry / size.choices * size.width;
    const V* buffer = reinterpret_cast<const V*>(args.buffer) + row * size.width;
    V* dbuffer = reinterpret_cast<V*>(args.dbuffer) + row * size.width;
    float product = 0.0F;
    for (int64_t j = threadIdx.x % kWarp; j < size.width; j += kWarp) {
      float out[V::kSize] = {};
      if (is_named) {
        const V dy = gradient[j];
        const V values = buffer[j];
        for (int e = 0; e < V::kSize; ++e) {
          product += widen(values.element[e]) * widen(dy.element[e]);
          out[e] = weight * widen(dy.element[e]);
        }
      }
      dbuffer[j] = narrow<Element>(out);
    }
    product = warp_reduce(product, Sum{});
    if (is_named && threadIdx.x % kWarp == 0) {
      args.dweights[entry] = product;
    }
  }
}

// Finds the starts of packed rows, if they are packed, and has room behind them.
struct Scratch {
  int32_t* starts;
  int32_t* rest;

  Scratch(Stream& stream, const DispatchSize& size, int64_t more) {
    const int64_t pairs = size.experts * size.batch;
    const int64_t used = size.counts != nullptr ? starts_bytes(pairs) : 0;
    const int64_t bytes = used + more * static_cast<int64_t>(sizeof(int32_t));
    auto* memory = static_cast<int32_t*>(cuda_stream(stream).scratch(bytes));
    starts = used != 0 ? memory : nullptr;
    rest = memory + used / static_cast<int64_t>(sizeof(int32_t));
    if (starts != nullptr) {
      find_starts(stream, size.counts, pairs, starts);
    }
  }
};

// Returns the entry that names each buffer row. Valid for the work enqueued next.
NamedRows named_rows(Stream& stream, const int32_t* routing, const DispatchSize& size) {
  const Scratch memory(stream, size, rows_of(size));
  fill_bytes(stream, memory.rest, 0xFF, rows_of(size) * static_cast<int64_t>(sizeof(int32_t)));
  launch(stream, memory.starts != nullptr ? find_kernel<true> : find_kernel<false>,
         blocks_for(size.batch * size.sequence * size.choices, kThreads), kThreads, routing,
         memory.rest, memory.starts, size);
  return {memory.rest, memory.starts};
}

template <typename V>
DispatchSize in_vectors(DispatchSize size) {
  size.width /= V::kSize;
  return size;
}

template <typename Element>
void sum_rows(Stream& stream, const Element* buffer, const int32_t* routing, const float* weights,
              Element* y, const DispatchSize& size) {
  const int32_t* starts = Scratch(stream, size, 0).starts;
  with_vectors<Element>(size.width, aligned16(buffer, y), [&](auto vector) {
    using V = typename decltype(vector)::type;
    launch(
        stream,
        starts != nullptr ? sum_rows_kernel<V, Element, true> : sum_rows_kernel<V, Element, false>,
        blocks_for(size.batch * size.sequence, kRows), kThreads, buffer, routing, starts, weights,
        y, in_vectors<V>(size));
  });
}

}  // namespace

template <typename Element>
void dispatch_forward(Stream& stream, const Element* x, const int32_t* routing, Element* buffer,
                      DispatchSize size) {
  check_size(size);
  const NamedRows named = named_rows(stream, routing, size);
  with_vectors<Element>(size.width, aligned16(x, buffer), [&](auto vector) {
    using V = typename decltype(vector)::type;
    launch(stream, dispatch_kernel<V>, blocks_for(rows_of(size), kRows), kThreads,
           reinterpret_cast<const V*>(x), named, reinterpret_cast<V*>(buffer), in_vectors<V>(size));
  });
}

template <typename Element>
void dispatch_backward(Stream& stream, const Element* dbuffer, const int32_t* routing, Element* dx,
                       DispatchSize size) {
  check_size(size);
  sum_rows(stream, dbuffer, routing, nullptr, dx, size);
}

template <typename Element>
void combine_forward(Stream& stream, const Element* buffer, const int32_t* routing,
                     const float* weights, Element* y, DispatchSize size) {
  check_size(size);
  sum_rows(stream, buffer, routing, weights, y, size);
}

template <typename Element>
void combine_backward(Stream& stream, const CombineBackward<Element>& args) {
  const DispatchSize& size = args.size;
  check_size(size);
  const NamedRows named = named_rows(stream, args.routing, size);
  fill_bytes(stream, args.dweights, 0,
             size.batch * size.sequence * size.choices * static_cast<int64_t>(sizeof(float)));
  with_vectors<Element>(size.width, aligned16(args.buffer, args.dy, args.dbuffer),
                        [&](auto vector) {
                          using V = typename decltype(vector)::type;
                          CombineBackward<Element> of_vectors = args;
                          of_vectors.size = in_vectors<V>(size);
                          launch(stream, combine_backward_kernel<V, Element>,
                                 blocks_for(rows_of(size), kRows), kThreads, of_vectors, named);
                        });
}

HIDUP_INSTANTIATE(dispatch_forward);
HIDUP_INSTANTIATE(dispatch_backward);
HIDUP_INSTANTIATE(combine_forward);
HIDUP_INSTANTIATE(combine_backward);

}  // namespace hidup::kernels
