// Attention in tiles of 64 queries and 64 keys. Scores exist for one tile at a time, in registers
// and shared memory. A block has 16 x 16 threads, each with 4 x 4 elements of a tile: rows 4 ty ..
// 4 ty + 3, columns tx, tx + 16, ... A head may have any size: inner products process it in pieces,
// and a block writes a slice of 64 elements of it.
#include "kernels/attention.h"

#include <type_traits>

#include "kernels/cuda_attention.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int kTile = 64;    // queries, keys, and elements of a head that a block writes
constexpr int kDepth = 32;   // elements of a head multiplied at a time
constexpr int kSide = 16;    // threads per side of a tile
constexpr int kPerSide = 4;  // elements of a tile's row or column per thread

struct Position {
  int x;
  int y;
  __device__ Position()
      : x(static_cast<int>(threadIdx.x) % kSide), y(static_cast<int>(threadIdx.x) / kSide) {}
  __device__ int row(int i) const { return kPerSide * y + i; }
  __device__ int column(int j) const { return x + kSide * j; }
};

using Fragment = float[kPerSide][kPerSide];

// Shared memory of a block. The pad puts a warp's accesses down a column in different banks.
struct Shared {
  float a[kTile][kDepth + 1];
  float b[kTile][kDepth + 1];
  float p[kTile][kTile + 1];
};

__device__ void clear(Fragment& fragment) {
  for (auto& row : fragment) {
    for (float& value : row) {
      value = 0.0F;
    }
  }
}

// tile = elements first .. first + kDepth - 1 of the head in kTile rows, zero beyond the ends.
template <typename Element>
__device__ void load_depth(const Rows<Element>& rows, int64_t first, int64_t head,
                           float (&tile)[kTile][kDepth + 1]) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int row = i / kDepth;
    const int64_t d = first + i % kDepth;
    tile[row][i % kDepth] =
        row < rows.rows && d < head ? widen(rows.data[row * rows.stride + d]) : 0.0F;
  }
}

// out = a b^T, for kTile rows each. Every thread must call it.
template <typename Element>
__device__ void inner_products(const Rows<Element>& a, const Rows<Element>& b, int64_t head,
                               Shared& shared, Fragment& out) {
  const Position at;
  clear(out);
  for (int64_t first = 0; first < head; first += kDepth) {
    __syncthreads();  // others may still read older data
    load_depth(a, first, head, shared.a);
    load_depth(b, first, head, shared.b);
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      for (int i = 0; i < kPerSide; ++i) {
        for (int j = 0; j < kPerSide; ++j) {
          out[i][j] += shared.a[at.row(i)][d] * shared.b[at.column(j)][d];
        }
      }
    }
  }
}

// out += p m, or p^T m if kTransposed, where m has kTile rows and the slice of the head from
// `first_column` on. Every thread must call it; p must be complete.
template <bool kTransposed, typename Element>
__device__ void add_product(const Rows<Element>& m, int64_t first_column, int64_t head,
                            Shared& shared, Fragment& out) {
  const Position at;
  float(&tile)[kDepth][kTile] = reinterpret_cast<float(&)[kDepth][kTile]>(shared.a);
  for (int first = 0; first < kTile; first += kDepth) {
    __syncthreads();  // p is written, and no thread reads the old tile any more
    for (int i = static_cast<int>(threadIdx.x); i < kDepth * kTile; i += kThreads) {
      const int row = first + i / kTile;
      const int64_t column = first_column + i % kTile;
      tile[i / kTile][i % kTile] =
          row < m.rows && column < head ? widen(m.data[row * m.stride + column]) : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k) {
      for (int i = 0; i < kPerSide; ++i) {
        const float p =
            kTransposed ? shared.p[first + k][at.row(i)] : shared.p[at.row(i)][first + k];
        for (int j = 0; j < kPerSide; ++j) {
          out[i][j] += p * tile[k][at.column(j)];
        }
      }
    }
  }
}

// Writes factor[i] * out to the rows that exist, the first `rows`.
template <typename Element>
__device__ void write(const Fragment& out, const float (&factor)[kPerSide], Element* data,
                      int64_t stride, int64_t rows, int64_t first_column, int64_t head) {
  const Position at;
  for (int i = 0; i < kPerSide; ++i) {
    for (int j = 0; j < kPerSide; ++j) {
      const int64_t column = first_column + at.column(j);
      if (at.row(i) < rows && column < head) {
        data[at.row(i) * stride + column] = narrow<Element>(factor[i] * out[i][j]);
      }
    }
  }
}

__device__ void write_to_shared(const Fragment& values, Shared& shared) {
  const Position at;
  for (int i = 0; i < kPerSide; ++i) {
    for (int j = 0; j < kPerSide; ++j) {
      shared.p[at.row(i)][at.column(j)] = values[i][j];
    }
  }
}

// A thread's statistics of its four queries: the largest score so far, and the sum of
// exp(score - largest) (Milakov and Gimelshein 2018).
struct Softmax {
  float largest[kPerSide];
  float sum[kPerSide];

  __device__ Softmax() {
    for (int i = 0; i < kPerSide; ++i) {
      largest[i] = -kInfinity;
      sum[i] = 0.0F;
    }
  }

  // Turns a tile of scores into exponentials, and rescales earlier sums.
  __device__ void add(Fragment& scores, Fragment& out) {
    for (int i = 0; i < kPerSide; ++i) {
      float row_largest = scores[i][0];
      for (int j = 1; j < kPerSide; ++j) {
        row_largest = fmaxf(row_largest, scores[i][j]);
      }
      // The threads of a row of the tile are half a warp.
      const float next = fmaxf(largest[i], warp_reduce<kSide>(row_largest, Max{}));
      const float correction = expf(largest[i] - next);
      float row_sum = 0.0F;
      for (int j = 0; j < kPerSide; ++j) {
        scores[i][j] = expf(scores[i][j] - next);
        row_sum += scores[i][j];
        out[i][j] *= correction;
      }
      sum[i] = sum[i] * correction + warp_reduce<kSide>(row_sum, Sum{});
      largest[i] = next;
    }
  }
};

// A block's work. blockIdx.x counts `count` heads (or groups) of all sequences, fastest, and tiles
// of positions; blockIdx.y counts slices of the head.
struct Task {
  int64_t index;   // of the head or group
  int64_t first;   // position
  int64_t column;  // of the head

  __device__ explicit Task(int64_t count)
      : index(blockIdx.x % count),
        first(blockIdx.x / count * kTile),
        column(static_cast<int64_t>(blockIdx.y) * kTile) {}
};

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(AttentionTensors<const Element> in, Element* y, float* lse, Problem problem) {
  __shared__ Shared shared;
  const Task task(problem.size.batch * problem.size.heads);
  const Head head(problem.size, in, task.index);
  const Position at;
  const Rows<Element> q = head.q_rows(in.q, task.first);
  const int64_t end = problem.causal ? smaller(head.sequence, task.first + kTile) : head.sequence;
  Softmax softmax;
  Fragment out;
  clear(out);
  for (int64_t key = 0; key < end; key += kTile) {
    Fragment scores;
    inner_products(q, head.kv_rows(in.k, key), head.size, shared, scores);
    for (int i = 0; i < kPerSide; ++i) {
      for (int j = 0; j < kPerSide; ++j) {
        const bool seen =
            sees(task.first + at.row(i), key + at.column(j), head.sequence, problem.causal);
        scores[i][j] = seen ? scores[i][j] * problem.scale : -kInfinity;
      }
    }
    softmax.add(scores, out);
    write_to_shared(scores, shared);
    add_product<false>(head.kv_rows(in.v, key), task.column, head.size, shared, out);
  }
  float factor[kPerSide];
  for (int i = 0; i < kPerSide; ++i) {
    factor[i] = 1.0F / softmax.sum[i];
    const int64_t query = task.first + at.row(i);
    if (blockIdx.y == 0 && at.x == 0 && query < head.sequence) {
      lse[head.lse + query] = softmax.largest[i] + logf(softmax.sum[i]);
    }
  }
  write(out, factor, y + head.y + task.first * head.y_stride, head.y_stride,
        head.sequence - task.first, task.column, head.size);
}

// d[b, h, i] = dy_i . y_i, by a warp.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    row_products_kernel(const Element* y, const Element* dy, float* d, AttentionSize size) {
  const int64_t count = size.batch * size.heads * size.sequence;
  for (int64_t i = thread_of_grid() / kWarp; i < count; i += threads_of_grid() / kWarp) {
    const AttentionHead head(size, 0, 0, i / size.sequence);
    const int64_t begin = head.y + i % size.sequence * head.y_stride;
    float sum = 0.0F;
    for (int64_t j = threadIdx.x % kWarp; j < size.head; j += kWarp) {
      sum += widen(y[begin + j]) * widen(dy[begin + j]);
    }
    sum = warp_reduce(sum, Sum{});
    if (threadIdx.x % kWarp == 0) {
      d[i] = sum;
    }
  }
}

// Computes P and dS of a tile.
template <typename Element>
__device__ void probabilities(const BackwardInputs<Element>& in, const Problem& problem,
                              const Head& head, int64_t query, int64_t key, Shared& shared,
                              Fragment& p, Fragment& ds) {
  const Position at;
  inner_products(head.q_rows(in.in.q, query), head.kv_rows(in.in.k, key), head.size, shared, p);
  inner_products(head.y_rows(in.dy, query), head.kv_rows(in.in.v, key), head.size, shared, ds);
  for (int i = 0; i < kPerSide; ++i) {
    const int64_t row = query + at.row(i);
    const bool exists = row < head.sequence;
    const float shift = exists ? in.lse[head.lse + row] : 0.0F;
    const float d = exists ? in.d[head.lse + row] : 0.0F;
    for (int j = 0; j < kPerSide; ++j) {
      const bool seen = exists && sees(row, key + at.column(j), head.sequence, problem.causal);
      p[i][j] = seen ? expf(p[i][j] * problem.scale - shift) : 0.0F;
      ds[i][j] = seen ? p[i][j] * (ds[i][j] - d) * problem.scale : 0.0F;
    }
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    query_gradient_kernel(BackwardInputs<Element> in, Element* all_dq, Problem problem) {
  __shared__ Shared shared;
  const Task task(problem.size.batch * problem.size.heads);
  const Head head(problem.size, in.in, task.index);
  const int64_t end = problem.causal ? smaller(head.sequence, task.first + kTile) : head.sequence;
  Fragment dq;
  clear(dq);
  for (int64_t key = 0; key < end; key += kTile) {
    Fragment p;
    Fragment ds;
    probabilities(in, problem, head, task.first, key, shared, p, ds);
    write_to_shared(ds, shared);
    add_product<false>(head.kv_rows(in.in.k, key), task.column, head.size, shared, dq);
  }
  const float ones[kPerSide] = {1.0F, 1.0F, 1.0F, 1.0F};
  write(dq, ones, all_dq + head.q + task.first * head.q_stride, head.q_stride,
        head.sequence - task.first, task.column, head.size);
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    key_value_gradient_kernel(BackwardInputs<Element> in, Element* all_dk, Element* all_dv,
                              Problem problem) {
  __shared__ Shared shared;
  const AttentionSize& size = problem.size;
  const Task task(size.batch * size.kv_heads);
  const int64_t stride = in.in.kv_stride;
  const Group group(size, stride, task.index);
  Fragment dk;
  Fragment dv;
  clear(dk);
  clear(dv);
  for (int64_t i = 0; i < group.heads; ++i) {
    const Head head(size, in.in, group.first_head + i);
    for (int64_t query = problem.causal ? task.first : 0; query < size.sequence; query += kTile) {
      Fragment p;
      Fragment ds;
      probabilities(in, problem, head, query, task.first, shared, p, ds);
      write_to_shared(p, shared);
      add_product<true>(head.y_rows(in.dy, query), task.column, size.head, shared, dv);
      __syncthreads();  // all have read p
      write_to_shared(ds, shared);
      add_product<true>(head.q_rows(in.in.q, query), task.column, size.head, shared, dk);
    }
  }
  const float ones[kPerSide] = {1.0F, 1.0F, 1.0F, 1.0F};
  const int64_t begin = group.kv + task.first * stride;
  const int64_t rows = size.sequence - task.first;
  write(dk, ones, all_dk + begin, stride, rows, task.column, size.head);
  write(dv, ones, all_dv + begin, stride, rows, task.column, size.head);
}

Problem problem_of(const AttentionSize& size, bool causal) {
  return {size, causal, 1.0F / sqrtf(static_cast<float>(size.head))};
}

// Returns the grid for `heads` heads or groups in every sequence.
dim3 attention_grid(const AttentionSize& size, int64_t heads) {
  return grid_of(size.batch * heads * ceil_div(size.sequence, kTile), ceil_div(size.head, kTile));
}

}  // namespace

template <typename Element>
void attention_forward(Stream& stream, const AttentionForward<Element>& args) {
  const AttentionSize& size = args.size;
  check_size(size);
  const Problem problem = problem_of(size, args.causal);
  if constexpr (!std::is_same_v<Element, float>) {
    if (size.head <= kLongestTensorHead) {
      tensor_attention_forward(stream, args.in, args.y, args.lse, problem);
      return;
    }
  }
  launch(stream, forward_kernel<Element>, attention_grid(size, size.heads), kThreads, args.in,
         args.y, args.lse, problem);
}

template <typename Element>
void attention_backward(Stream& stream, const AttentionBackward<Element>& args) {
  const AttentionSize& size = args.size;
  check_size(size);
  const int64_t rows = size.batch * size.heads * size.sequence;
  auto* d =
      static_cast<float*>(cuda_stream(stream).scratch(rows * static_cast<int64_t>(sizeof(float))));
  launch(stream, row_products_kernel<Element>, blocks_for(rows, kThreads / kWarp), kThreads, args.y,
         args.dy, d, size);
  const BackwardInputs<Element> in = {args.in, args.lse, args.dy, d};
  const Problem problem = problem_of(size, args.causal);
  if constexpr (!std::is_same_v<Element, float>) {
    if (size.head <= kLongestTensorHead) {
      tensor_attention_backward(stream, in, args.grad, problem);
      return;
    }
  }
  launch(stream, query_gradient_kernel<Element>, attention_grid(size, size.heads), kThreads, in,
         args.grad.q, problem);
  launch(stream, key_value_gradient_kernel<Element>, attention_grid(size, size.kv_heads), kThreads,
         in, args.grad.k, args.grad.v, problem);
}

HIDUP_INSTANTIATE(attention_forward);
HIDUP_INSTANTIATE(attention_backward);

}  // namespace hidup::kernels
