// Attention of 16-bit elements on tensor cores, as FlashAttention-2 (Dao 2023) has it. A block has
// four warps and 64 rows of the result: queries, or keys for their gradients. It goes over the
// other side 64 rows at a time, which it copies to shared memory; scores are in registers only.
// Heads are filled with zeros to kHead elements.
#include "kernels/cuda_attention.h"
#include "kernels/cuda_tiles.h"

namespace hidup::kernels {
namespace {

constexpr int kTensorThreads = kTileWarps * kWarp;
constexpr int kRows = 16 * kTileWarps;  // of a block; a warp has the 16 rows of a tile
constexpr int kStrips = kRows / 16;     // of the other side: rows that are multiplied at a time

// Rows of a tensor in shared memory. The pad leads neighbouring rows to different banks.
template <typename Element, int kHead>
struct alignas(16) SharedRows {
  static constexpr int kStride = kHead + 8;
  Element data[kRows][kStride];

  __device__ const Element* at(int row, int column) const { return &data[row][column]; }
};

// Rows of `from`, zero beyond its ends. vectors: they are aligned to 16 bytes, and whole vectors.
template <typename Element, int kHead>
__device__ void load(const Rows<Element>& from, int64_t head, bool vectors,
                     SharedRows<Element, kHead>& to) {
  constexpr int kCount = kPerVector<Element>;
  constexpr int kAcross = kHead / kCount;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kAcross; i += kTensorThreads) {
    const int row = i / kAcross;
    const int column = i % kAcross * kCount;
    const Element* data = from.data + row * from.stride + column;
    Vector<Element> loaded = {};
    if (vectors && row < from.rows && column < head) {
      loaded = *reinterpret_cast<const Vector<Element>*>(data);
    } else if (row < from.rows) {
      for (int j = 0; j < kCount && column + j < head; ++j) {
        loaded.element[j] = data[j];
      }
    }
    *reinterpret_cast<Vector<Element>*>(&to.data[row][column]) = loaded;
  }
}

// The rows of a warp, as the left side of products.
template <typename Element, int kHead>
__device__ void load_a_rows(const SharedRows<Element, kHead>& rows, TileA (&a)[kHead / 16]) {
  const int first = static_cast<int>(threadIdx.x) / kWarp * 16;
  HIDUP_UNROLL for (int d = 0; d < kHead / 16; ++d) {
    a[d] = load_a(rows.at(first, 16 * d), SharedRows<Element, kHead>::kStride);
  }
}

template <int kCount>
__device__ void clear(TileSums (&sums)[kCount]) {
  HIDUP_UNROLL for (int i = 0; i < kCount; ++i) {
    sums[i] = {};
  }
}

// sums += the inner products of the rows of a with 16 rows of b from `first` on.
template <typename Element, int kHead>
__device__ void add_inner_products(const TileA (&a)[kHead / 16],
                                   const SharedRows<Element, kHead>& b, int first,
                                   TileSums (&sums)[2]) {
  HIDUP_UNROLL for (int d = 0; d < kHead / 16; ++d) {
    TileB tiles[2];
    load_b_of_columns(b.at(first, 16 * d), b.kStride, tiles);
    multiply_add<Element>(a[d], tiles[0], sums[0]);
    multiply_add<Element>(a[d], tiles[1], sums[1]);
  }
}

// sums += weights b, for 16 rows of b from `first` on.
template <typename Element, int kHead>
__device__ void add_product(const TileSums (&weights)[2], const SharedRows<Element, kHead>& b,
                            int first, TileSums (&sums)[kHead / 8]) {
  const TileA a = narrow_to_a<Element>(weights[0], weights[1]);
  HIDUP_UNROLL for (int d = 0; d < kHead / 16; ++d) {
    TileB tiles[2];
    load_b_of_rows(b.at(first, 16 * d), b.kStride, tiles);
    multiply_add<Element>(a, tiles[0], sums[2 * d]);
    multiply_add<Element>(a, tiles[1], sums[2 * d + 1]);
  }
}

// Where a lane's sums lie in a strip of 16 columns: value i of the left (0) or right (1) tile.
struct Place {
  int first_row;  // of the lane, in the block
  int first_column;

  __device__ Place()
      : first_row(static_cast<int>(threadIdx.x) / kWarp * 16 + lane_of_warp() / 4),
        first_column(lane_of_warp() % 4 * 2) {}
  __device__ int row(int i) const { return first_row + i / 2 * 8; }
  __device__ int column(int tile, int i) const { return 8 * tile + first_column + i % 2; }
};

// Writes factor * sums to rows of `head` elements; only the first `rows` exist.
template <typename Element, int kHead>
__device__ void write(const TileSums (&sums)[kHead / 8], const float (&factor)[2], Element* data,
                      int64_t stride, int64_t rows, int64_t head, bool vectors) {
  const Place at;
  HIDUP_UNROLL for (int d = 0; d < kHead / 8; ++d) {
    HIDUP_UNROLL for (int half = 0; half < 2; ++half) {
      const int row = at.row(2 * half);
      const int column = at.column(d, 0);
      if (row >= rows || column >= head) {
        continue;
      }
      const Vector<Element, 2> both = narrow<Element>(factor[half] * sums[d].values[2 * half],
                                                      factor[half] * sums[d].values[2 * half + 1]);
      Element* to = data + row * stride + column;
      if (vectors) {
        *reinterpret_cast<Vector<Element, 2>*>(to) = both;
      } else {
        to[0] = both.element[0];
        if (column + 1 < head) {
          to[1] = both.element[1];
        }
      }
    }
  }
}

// blockIdx.x: `count` heads (or groups) of all sequences, fastest, and blocks of rows.
struct Task {
  int64_t index;  // of the head or group
  int64_t first;  // position of the block's first row

  __device__ explicit Task(int64_t count)
      : index(blockIdx.x % count), first(blockIdx.x / count * kRows) {}
};

// What a lane knows of its two queries: the largest score so far, and the sum of the exponentials
// of the scores less it.
struct Softmax {
  float largest[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0.0F, 0.0F};

  // Turns scores into exponentials; returns what sums with earlier ones are to be multiplied by.
  __device__ void add(TileSums (&scores)[kStrips][2], float (&correction)[2]) {
    HIDUP_UNROLL for (int half = 0; half < 2; ++half) {
      float next = largest[half];
      HIDUP_UNROLL for (int j = 0; j < 4 * kStrips; ++j) {
        next = fmaxf(next, value(scores, half, j));
      }
      next = warp_reduce<4>(next, Max{});  // the lanes that share the row
      float row_sum = 0.0F;
      HIDUP_UNROLL for (int j = 0; j < 4 * kStrips; ++j) {
        float& score = value(scores, half, j);
        score = expf(score - next);
        row_sum += score;
      }
      correction[half] = expf(largest[half] - next);
      sum[half] = sum[half] * correction[half] + warp_reduce<4>(row_sum, Sum{});
      largest[half] = next;
    }
  }

 private:
  // Of the lane's upper (0) or lower (1) row.
  __device__ static float& value(TileSums (&scores)[kStrips][2], int half, int j) {
    return scores[j / 4][j / 2 % 2].values[2 * half + j % 2];
  }
};

template <typename Element, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    forward_kernel(AttentionTensors<const Element> in, Element* y, float* lse, Problem problem,
                   bool vectors) {
  __shared__ SharedRows<Element, kHead> keys;
  __shared__ SharedRows<Element, kHead> values;
  const Task task(problem.size.batch * problem.size.heads);
  const Head head(problem.size, in, task.index);
  const Place at;
  TileA q[kHead / 16];
  load(head.q_rows(in.q, task.first), head.size, vectors, keys);
  __syncthreads();
  load_a_rows(keys, q);
  TileSums out[kHead / 8];
  clear(out);
  Softmax softmax;
  const int64_t end = problem.causal ? smaller(head.sequence, task.first + kRows) : head.sequence;
  for (int64_t key = 0; key < end; key += kRows) {
    __syncthreads();  // others may still read what was there
    load(head.kv_rows(in.k, key), head.size, vectors, keys);
    load(head.kv_rows(in.v, key), head.size, vectors, values);
    __syncthreads();
    TileSums scores[kStrips][2];
    HIDUP_UNROLL for (int strip = 0; strip < kStrips; ++strip) {
      clear(scores[strip]);
      add_inner_products(q, keys, 16 * strip, scores[strip]);
      HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
        float& score = scores[strip][j / 4].values[j % 4];
        const int64_t column = key + 16 * strip + at.column(j / 4, j % 4);
        const bool seen = sees(task.first + at.row(j % 4), column, head.sequence, problem.causal);
        score = seen ? score * problem.scale : -kInfinity;
      }
    }
    float correction[2];
    softmax.add(scores, correction);
    HIDUP_UNROLL for (int d = 0; d < kHead / 8; ++d) {
      HIDUP_UNROLL for (int i = 0; i < 4; ++i) {
        out[d].values[i] *= correction[i / 2];
      }
    }
    HIDUP_UNROLL for (int strip = 0; strip < kStrips; ++strip) {
      add_product(scores[strip], values, 16 * strip, out);
    }
  }
  float factor[2];
  for (int half = 0; half < 2; ++half) {
    factor[half] = 1.0F / softmax.sum[half];
    const int64_t query = task.first + at.row(2 * half);
    if (at.first_column == 0 && query < head.sequence) {
      lse[head.lse + query] = softmax.largest[half] + logf(softmax.sum[half]);
    }
  }
  write<Element, kHead>(out, factor, y + head.y + task.first * head.y_stride, head.y_stride,
                        head.sequence - task.first, head.size, vectors);
}

// From products q . k and dy . v: the probability p, and the gradient ds of the product q . k.
__device__ inline void to_gradient(bool seen, float lse, float d, float scale, float& p,
                                   float& ds) {
  p = seen ? expf(p * scale - lse) : 0.0F;
  ds = seen ? p * (ds - d) * scale : 0.0F;
}

template <typename Element, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    query_gradient_kernel(BackwardInputs<Element> in, Element* all_dq, Problem problem,
                          bool vectors) {
  __shared__ SharedRows<Element, kHead> keys;
  __shared__ SharedRows<Element, kHead> values;
  const Task task(problem.size.batch * problem.size.heads);
  const Head head(problem.size, in.in, task.index);
  const Place at;
  TileA q[kHead / 16];
  TileA dy[kHead / 16];
  load(head.q_rows(in.in.q, task.first), head.size, vectors, keys);
  load(head.y_rows(in.dy, task.first), head.size, vectors, values);
  __syncthreads();
  load_a_rows(keys, q);
  load_a_rows(values, dy);
  float lse[2];
  float d[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t query = task.first + at.row(2 * half);
    lse[half] = query < head.sequence ? in.lse[head.lse + query] : 0.0F;
    d[half] = query < head.sequence ? in.d[head.lse + query] : 0.0F;
  }
  TileSums dq[kHead / 8];
  clear(dq);
  const int64_t end = problem.causal ? smaller(head.sequence, task.first + kRows) : head.sequence;
  for (int64_t key = 0; key < end; key += kRows) {
    __syncthreads();  // others may still read what was there
    load(head.kv_rows(in.in.k, key), head.size, vectors, keys);
    load(head.kv_rows(in.in.v, key), head.size, vectors, values);
    __syncthreads();
    for (int strip = 0; strip < kStrips && key + 16 * strip < end; ++strip) {
      TileSums p[2] = {};
      TileSums ds[2] = {};
      add_inner_products(q, keys, 16 * strip, p);
      add_inner_products(dy, values, 16 * strip, ds);
      HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
        const int i = j % 4;
        const int64_t query = task.first + at.row(i);
        const int64_t column = key + 16 * strip + at.column(j / 4, i);
        const bool seen =
            query < head.sequence && sees(query, column, head.sequence, problem.causal);
        to_gradient(seen, lse[i / 2], d[i / 2], problem.scale, p[j / 4].values[i],
                    ds[j / 4].values[i]);
      }
      add_product(ds, keys, 16 * strip, dq);
    }
  }
  const float ones[2] = {1.0F, 1.0F};
  write<Element, kHead>(dq, ones, all_dq + head.q + task.first * head.q_stride, head.q_stride,
                        head.sequence - task.first, head.size, vectors);
}

// Its rows are keys, and its columns queries of all heads of the group, one head after the other.
template <typename Element, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    key_value_gradient_kernel(BackwardInputs<Element> in, Element* all_dk, Element* all_dv,
                              Problem problem, bool vectors) {
  __shared__ SharedRows<Element, kHead> queries;
  __shared__ SharedRows<Element, kHead> gradients;
  __shared__ float lse[kRows];
  __shared__ float d[kRows];
  const AttentionSize& size = problem.size;
  const int64_t stride = in.in.kv_stride;
  const Task task(size.batch * size.kv_heads);
  const Group group(size, stride, task.index);
  const int64_t begin = group.kv + task.first * stride;
  const int64_t rows = size.sequence - task.first;
  const Place at;
  TileA k[kHead / 16];
  TileA v[kHead / 16];
  load(Rows<Element>{in.in.k + begin, stride, rows}, size.head, vectors, queries);
  load(Rows<Element>{in.in.v + begin, stride, rows}, size.head, vectors, gradients);
  __syncthreads();
  load_a_rows(queries, k);
  load_a_rows(gradients, v);
  TileSums dk[kHead / 8];
  TileSums dv[kHead / 8];
  clear(dk);
  clear(dv);
  for (int64_t index = 0; index < group.heads; ++index) {
    const Head head(size, in.in, group.first_head + index);
    for (int64_t query = problem.causal ? task.first : 0; query < size.sequence; query += kRows) {
      __syncthreads();  // others may still read what was there
      load(head.q_rows(in.in.q, query), size.head, vectors, queries);
      load(head.y_rows(in.dy, query), size.head, vectors, gradients);
      for (int i = static_cast<int>(threadIdx.x); i < kRows; i += kTensorThreads) {
        const bool exists = query + i < size.sequence;
        lse[i] = exists ? in.lse[head.lse + query + i] : 0.0F;
        d[i] = exists ? in.d[head.lse + query + i] : 0.0F;
      }
      __syncthreads();
      for (int strip = 0; strip < kStrips && query + 16 * strip < size.sequence; ++strip) {
        TileSums p[2] = {};
        TileSums ds[2] = {};
        add_inner_products(k, queries, 16 * strip, p);
        add_inner_products(v, gradients, 16 * strip, ds);
        HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
          const int column = 16 * strip + at.column(j / 4, j % 4);
          const int64_t key = task.first + at.row(j % 4);
          const bool seen = query + column < size.sequence &&
                            sees(query + column, key, size.sequence, problem.causal);
          to_gradient(seen, lse[column], d[column], problem.scale, p[j / 4].values[j % 4],
                      ds[j / 4].values[j % 4]);
        }
        add_product(p, gradients, 16 * strip, dv);
        add_product(ds, queries, 16 * strip, dk);
      }
    }
  }
  const float ones[2] = {1.0F, 1.0F};
  write<Element, kHead>(dk, ones, all_dk + begin, stride, rows, size.head, vectors);
  write<Element, kHead>(dv, ones, all_dv + begin, stride, rows, size.head, vectors);
}

// Of so many heads or groups in every sequence.
dim3 attention_grid(const AttentionSize& size, int64_t heads) {
  return grid_of(size.batch * heads * ceil_div(size.sequence, kRows));
}

template <int kHead, typename Element>
void forward(Stream& stream, const AttentionTensors<const Element>& in, Element* y, float* lse,
             const Problem& problem) {
  const bool vectors =
      problem.size.head % kPerVector<Element> == 0 && aligned16(in.q, in.k, in.v, y);
  launch(stream, forward_kernel<Element, kHead>, attention_grid(problem.size, problem.size.heads),
         kTensorThreads, in, y, lse, problem, vectors);
}

template <int kHead, typename Element>
void backward(Stream& stream, const BackwardInputs<Element>& in,
              const AttentionTensors<Element>& grad, const Problem& problem) {
  const bool vectors = problem.size.head % kPerVector<Element> == 0 &&
                       aligned16(in.in.q, in.in.k, in.in.v) &&
                       aligned16(in.dy, grad.q, grad.k, grad.v);
  launch(stream, query_gradient_kernel<Element, kHead>,
         attention_grid(problem.size, problem.size.heads), kTensorThreads, in, grad.q, problem,
         vectors);
  launch(stream, key_value_gradient_kernel<Element, kHead>,
         attention_grid(problem.size, problem.size.kv_heads), kTensorThreads, in, grad.k, grad.v,
         problem, vectors);
}

}  // namespace

template <typename Element>
void tensor_attention_forward(Stream& stream, const AttentionTensors<const Element>& in, Element* y,
                              float* lse, const Problem& problem) {
  if (problem.size.head <= 64) {
    forward<64>(stream, in, y, lse, problem);
  } else {
    forward<kLongestTensorHead>(stream, in, y, lse, problem);
  }
}

template <typename Element>
void tensor_attention_backward(Stream& stream, const BackwardInputs<Element>& in,
                               const AttentionTensors<Element>& grad, const Problem& problem) {
  if (problem.size.head <= 64) {
    backward<64>(stream, in, grad, problem);
  } else {
    backward<kLongestTensorHead>(stream, in, grad, problem);
  }
}

#define INSTANTIATE(Element)                                                              \
  template decltype(tensor_attention_forward<Element>) tensor_attention_forward<Element>; \
  template decltype(tensor_attention_backward<Element>) tensor_attention_backward<Element>;
INSTANTIATE(BFloat16)
INSTANTIATE(Float16)
#undef INSTANTIATE

}  // namespace hidup::kernels
