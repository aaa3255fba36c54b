#include "kernels/cuda_elements.h"
#include "kernels/embedding.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int kWarps = kThreads / kWarp;
constexpr int32_t kNone = 0x7F7F7F7F;  // beyond all positions; equal bytes, for a fill

// Returns the row of the table for the token, or -1 if this rank lacks it.
__device__ int64_t row_of(int32_t token, const EmbeddingSize& size) {
  const int64_t row = token - size.first;
  return row >= 0 && row < size.vocab ? row : -1;
}

// A warp copies a row, of vectors V.
template <typename V, typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const int32_t* tokens, const Element* table, Element* y, EmbeddingSize size,
                   float scale) {
  const int64_t lane = threadIdx.x % kWarp;
  for (int64_t i = thread_of_grid() / kWarp; i < size.tokens; i += threads_of_grid() / kWarp) {
    const int64_t row = row_of(tokens[i], size);
    const V* from = reinterpret_cast<const V*>(table + row * size.hidden);
    V* to = reinterpret_cast<V*>(y + i * size.hidden);
    for (int64_t j = lane; j < size.hidden / V::kSize; j += kWarp) {
      const V read = row < 0 ? V{} : from[j];
      float out[V::kSize];
      for (int e = 0; e < V::kSize; ++e) {
        out[e] = scale * widen(read.element[e]);
      }
      to[j] = narrow<Element>(out);
    }
  }
}

// first[row] = the first position of the row's token. A minimum does not depend on the order.
__global__ void __launch_bounds__(kThreads)
    first_kernel(const int32_t* tokens, int32_t* first, EmbeddingSize size) {
  for (int64_t i = thread_of_grid(); i < size.tokens; i += threads_of_grid()) {
    const int64_t row = row_of(tokens[i], size);
    if (row >= 0) {
      atomicMin(&first[row], static_cast<int32_t>(i));
    }
  }
}

// next[i] = the next position of the token at position i; kNone after the last. A warp searches 32
// positions at a time: frequent tokens are found soon, and rare ones are few.
__global__ void __launch_bounds__(kThreads)
    next_kernel(const int32_t* tokens, int32_t* next, EmbeddingSize size) {
  const int64_t lane = threadIdx.x % kWarp;
  for (int64_t i = thread_of_grid() / kWarp; i < size.tokens; i += threads_of_grid() / kWarp) {
    const int32_t token = tokens[i];
    if (row_of(token, size) < 0) {
      continue;
    }
    int32_t found = kNone;
    for (int64_t begin = i + 1; begin < size.tokens && found == kNone; begin += kWarp) {
      const int64_t at = begin + lane;
      const unsigned same = __ballot_sync(kAllLanes, at < size.tokens && tokens[at] == token);
      if (same != 0) {
        found = static_cast<int32_t>(begin) + __ffs(static_cast<int>(same)) - 1;
      }
    }
    if (lane == 0) {
      next[i] = found;
    }
  }
}

// A block steps through the positions of one row's token, and a thread owns a column.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const int32_t* first, const int32_t* next, EmbeddingBackward<Element> args) {
  const int64_t hidden = args.size.hidden;
  const int64_t j = int64_t{blockIdx.y} * kThreads + threadIdx.x;
  if (j >= hidden) {
    return;
  }
  for (int64_t row = blockIdx.x; row < args.size.vocab; row += gridDim.x) {
    if (args.accumulate && first[row] == kNone) {
      continue;
    }
    float* out = args.dtable + row * hidden + j;
    float sum = args.accumulate ? *out : 0.0F;
    for (int32_t i = first[row]; i != kNone; i = next[i]) {
      sum += args.scale * widen(args.dy[i * hidden + j]);
    }
    *out = sum;
  }
}

}  // namespace

template <typename Element>
void embedding_forward(Stream& stream, const int32_t* tokens, const Element* table, Element* y,
                       EmbeddingSize size, float scale) {
  check_size(size);
  with_vectors<Element>(size.hidden, aligned16(table, y), [&](auto vector) {
    using V = typename decltype(vector)::type;
    launch(stream, forward_kernel<V, Element>, blocks_for(size.tokens, kWarps), kThreads, tokens,
           table, y, size, scale);
  });
}

template <typename Element>
void embedding_backward(Stream& stream, const EmbeddingBackward<Element>& args) {
  const EmbeddingSize& size = args.size;
  check_size(size);
  check_at_most("positions of tokens", size.tokens, kNone);
  constexpr auto kBytes = static_cast<int64_t>(sizeof(int32_t));
  auto* first =
      static_cast<int32_t*>(cuda_stream(stream).scratch((size.vocab + size.tokens) * kBytes));
  int32_t* next = first + size.vocab;
  fill_bytes(stream, first, kNone & 0xFF, size.vocab * kBytes);
  launch(stream, first_kernel, blocks_for(size.tokens, kThreads), kThreads, args.tokens, first,
         size);
  launch(stream, next_kernel, blocks_for(size.tokens, kWarps), kThreads, args.tokens, next, size);
  const dim3 grid = grid_of(blocks_for(size.vocab, 1), ceil_div(size.hidden, kThreads));
  launch(stream, sum_kernel<Element>, grid, kThreads, first, next, args);
}

HIDUP_INSTANTIATE(embedding_forward);
HIDUP_INSTANTIATE(embedding_backward);

}  // namespace hidup::kernels
