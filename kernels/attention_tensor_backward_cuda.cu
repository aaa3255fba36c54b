// The gradients of attention_tensor_cuda.cu, which recompute probabilities from the log-sum-exp.
#include "kernels/cuda_attention_tiles.h"

namespace hidup::kernels {
namespace {

// Turns products q . k and dy . v into the probability p and the gradient ds of the scaled product
// q . k / sqrt(head). Exponents are of 2.
__device__ inline void to_gradient(float scale, float lse, float d, float& p, float& ds) {
  p = exp2_of(fmaf(p, scale, -lse));
  ds = p * (ds - d);
}

template <typename Element, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    query_gradient_kernel(BackwardInputs<Element> in, Element* all_dq, Problem problem,
                          bool vectors) {
  using KeysAndValues = Tile<Element, kHead>;
  constexpr int kColumns = KeysAndValues::kColumns;
  __shared__ KeysAndValues tiles[2];
  const Task task(problem.size.batch * problem.size.heads, problem.causal);
  const Head head(problem.size, in.in, task.index);
  const Place at;
  TileA q[kHead / 16];
  TileA dy[kHead / 16];
  load<kRows>(head.q_rows(in.in.q, task.first), head.size, vectors, 0, tiles[0]);
  load<kRows>(head.y_rows(in.dy, task.first), head.size, vectors, 0, tiles[1]);
  arrive();
  load_a_rows(tiles[0], q);
  load_a_rows(tiles[1], dy);
  const auto sequence = static_cast<int>(head.sequence);
  float lse[2];
  float d[2];
  for (int half = 0; half < 2; ++half) {
    const int query = task.first + at.row(2 * half);
    lse[half] = query < sequence ? in.lse[head.lse + query] * kLog2E : 0.0F;
    d[half] = query < sequence ? in.d[head.lse + query] : 0.0F;
  }
  const auto load_tile = [&](int key, KeysAndValues& to) {
    load<kColumns>(head.kv_rows(in.in.k, key), head.size, vectors, 0, to);
    load<kColumns>(head.kv_rows(in.in.v, key), head.size, vectors, kColumns, to);
  };
  TileSums dq[kHead / 8];
  clear(dq);
  const float scale = problem.scale * kLog2E;
  const int end = problem.causal ? smaller(sequence, task.first + kRows) : sequence;
  __syncthreads();  // all have loaded their rows
  load_tile(0, tiles[0]);
  for (int key = 0; key < end; key += kColumns) {
    const KeysAndValues& tile = tiles[key / kColumns % 2];
    arrive();
    if (key + kColumns < end) {
      load_tile(key + kColumns, tiles[(key / kColumns + 1) % 2]);
    }
    const bool masked =
        hides_some(key, kColumns, task.first + at.first_of_warp, sequence, problem.causal);
    for (int strip = 0; strip < KeysAndValues::kStrips && key + 16 * strip < end; ++strip) {
      TileSums p[2] = {};
      TileSums ds[2] = {};
      add_inner_products(q, tile, 16 * strip, p);
      add_inner_products(dy, tile, kColumns + 16 * strip, ds);
      HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
        const int i = j % 4;
        to_gradient(scale, lse[i / 2], d[i / 2], p[j / 4].values[i], ds[j / 4].values[i]);
      }
      if (masked) {
        HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
          const int column = key + 16 * strip + at.column(j / 4, j % 4);
          if (!sees(task.first + at.row(j % 4), column, sequence, problem.causal)) {
            ds[j / 4].values[j % 4] = 0.0F;
          }
        }
      }
      add_product(ds, tile, 16 * strip, dq);
    }
  }
  const float factor[2] = {problem.scale, problem.scale};
  write<Element, kHead>(dq, factor, all_dq + head.q + task.first * head.q_stride, head.q_stride,
                        head.sequence - task.first, head.size, vectors);
}

// Queries and gradients of the result, with the forward pass's statistics of the queries.
template <typename Element, int kHead>
struct Queries {
  Tile<Element, kHead> rows;
  float lse[Tile<Element, kHead>::kColumns];
  float d[Tile<Element, kHead>::kColumns];
};

// A block's rows are keys, and its columns the queries of all heads of the group, head by head.
// Queries beyond the end are zeros and add zeros.
template <typename Element, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    key_value_gradient_kernel(BackwardInputs<Element> in, Element* all_dk, Element* all_dv,
                              Problem problem, bool vectors) {
  using Columns = Queries<Element, kHead>;
  constexpr int kColumns = Tile<Element, kHead>::kColumns;
  __shared__ Columns tiles[2];
  const AttentionSize& size = problem.size;
  const int64_t stride = in.in.kv_stride;
  const Task task(size.batch * size.kv_heads, false);
  const Group group(size, stride, task.index);
  const int64_t begin = group.kv + task.first * stride;
  const auto sequence = static_cast<int>(size.sequence);
  const int rows = sequence - task.first;
  const Place at;
  TileA k[kHead / 16];
  TileA v[kHead / 16];
  load<kRows>(Rows<Element>{in.in.k + begin, stride, rows}, size.head, vectors, 0, tiles[0].rows);
  load<kRows>(Rows<Element>{in.in.v + begin, stride, rows}, size.head, vectors, 0, tiles[1].rows);
  arrive();
  load_a_rows(tiles[0].rows, k);
  load_a_rows(tiles[1].rows, v);
  const int first_query = problem.causal ? task.first : 0;
  const int tiles_of_head = (sequence - first_query + kColumns - 1) / kColumns;
  const auto query_of = [&](int number) { return first_query + number % tiles_of_head * kColumns; };
  const auto load_tile = [&](int number, Columns& to) {
    const Head head(size, in.in, group.first_head + number / tiles_of_head);
    const int query = query_of(number);
    load<kColumns>(head.q_rows(in.in.q, query), size.head, vectors, 0, to.rows);
    load<kColumns>(head.y_rows(in.dy, query), size.head, vectors, kColumns, to.rows);
    const auto i = static_cast<int>(threadIdx.x);
    if (i < kColumns) {
      const bool exists = query + i < sequence;
      const int64_t from = head.lse + (exists ? query + i : 0);
      __pipeline_memcpy_async(&to.lse[i], in.lse + from, 4, exists ? 0 : 4);
      __pipeline_memcpy_async(&to.d[i], in.d + from, 4, exists ? 0 : 4);
    }
  };
  TileSums dk[kHead / 8];
  TileSums dv[kHead / 8];
  clear(dk);
  clear(dv);
  const float scale = problem.scale * kLog2E;
  const int count = static_cast<int>(group.heads) * tiles_of_head;
  __syncthreads();  // all have loaded their rows
  load_tile(0, tiles[0]);
  for (int number = 0; number < count; ++number) {
    const Columns& tile = tiles[number % 2];
    arrive();
    if (number + 1 < count) {
      load_tile(number + 1, tiles[(number + 1) % 2]);
    }
    const int query = query_of(number);
    const bool masked = problem.causal && query < task.first + at.first_of_warp + 15;
    for (int strip = 0; strip < Tile<Element, kHead>::kStrips && query + 16 * strip < sequence;
         ++strip) {
      TileSums p[2] = {};
      TileSums ds[2] = {};
      add_inner_products(k, tile.rows, 16 * strip, p);
      add_inner_products(v, tile.rows, kColumns + 16 * strip, ds);
      HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
        const int column = 16 * strip + at.column(j / 4, j % 4);
        to_gradient(scale, tile.lse[column] * kLog2E, tile.d[column], p[j / 4].values[j % 4],
                    ds[j / 4].values[j % 4]);
      }
      if (masked) {
        HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
          if (query + 16 * strip + at.column(j / 4, j % 4) < task.first + at.row(j % 4)) {
            p[j / 4].values[j % 4] = 0.0F;
            ds[j / 4].values[j % 4] = 0.0F;
          }
        }
      }
      add_product(p, tile.rows, kColumns + 16 * strip, dv);
      add_product(ds, tile.rows, 16 * strip, dk);
    }
  }
  const float ones[2] = {1.0F, 1.0F};
  const float factor[2] = {problem.scale, problem.scale};
  write<Element, kHead>(dk, factor, all_dk + begin, stride, rows, size.head, vectors);
  write<Element, kHead>(dv, ones, all_dv + begin, stride, rows, size.head, vectors);
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
void tensor_attention_backward(Stream& stream, const BackwardInputs<Element>& in,
                               const AttentionTensors<Element>& grad, const Problem& problem) {
  if (problem.size.head <= 64) {
    backward<64>(stream, in, grad, problem);
  } else {
    backward<kLongestTensorHead>(stream, in, grad, problem);
  }
}

template decltype(tensor_attention_backward<BFloat16>) tensor_attention_backward<BFloat16>;
template decltype(tensor_attention_backward<Float16>) tensor_attention_backward<Float16>;

}  // namespace hidup::kernels
