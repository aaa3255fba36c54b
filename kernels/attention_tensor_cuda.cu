// Attention of 16-bit elements on tensor cores, like FlashAttention-2 (Dao 2023): scores exist only
// in registers, unscaled: exp(scale * (score - largest)) is one multiply-add and one power of 2.
#include "kernels/cuda_attention_tiles.h"

namespace hidup::kernels {
namespace {

// A lane's statistics of its two queries: the largest score so far, and the sum of
// exp(score - largest) over the lane's own columns.
struct Softmax {
  float scale;  // of an exponent of 2
  float largest[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0.0F, 0.0F};

  // Turns scores into exponentials; returns the factors for earlier sums.
  template <int kStrips>
  __device__ void add(TileSums (&scores)[kStrips][2], float (&correction)[2]) {
    HIDUP_UNROLL for (int half = 0; half < 2; ++half) {
      float next = largest[half];
      HIDUP_UNROLL for (int j = 0; j < 4 * kStrips; ++j) {
        next = fmaxf(next, value(scores, half, j));
      }
      next = warp_reduce<4>(next, Max{});  // the lanes that share the row
      const float shift = next * scale;
      correction[half] = exp2_of(fmaf(largest[half], scale, -shift));
      sum[half] *= correction[half];
      HIDUP_UNROLL for (int j = 0; j < 4 * kStrips; ++j) {
        float& score = value(scores, half, j);
        score = exp2_of(fmaf(score, scale, -shift));
        sum[half] += score;
      }
      largest[half] = next;
    }
  }
  // Returns the sum over all columns.
  __device__ float total(int half) const { return warp_reduce<4>(sum[half], Sum{}); }

 private:
  // Returns a score of the lane's upper (0) or lower (1) row.
  template <int kStrips>
  __device__ static float& value(TileSums (&scores)[kStrips][2], int half, int j) {
    return scores[j / 4][j / 2 % 2].values[2 * half + j % 2];
  }
};

template <typename Element, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    forward_kernel(AttentionTensors<const Element> in, Element* y, float* lse, Problem problem,
                   bool vectors) {
  using KeysAndValues = Tile<Element, kHead>;
  constexpr int kColumns = KeysAndValues::kColumns;
  __shared__ KeysAndValues tiles[2];
  const Task task(problem.size.batch * problem.size.heads, problem.causal);
  const Head head(problem.size, in, task.index);
  const Place at;
  const auto load_tile = [&](int key, KeysAndValues& to) {
    load<kColumns>(head.kv_rows(in.k, key), head.size, vectors, 0, to);
    load<kColumns>(head.kv_rows(in.v, key), head.size, vectors, kColumns, to);
  };
  const auto sequence = static_cast<int>(head.sequence);
  const int end = problem.causal ? smaller(sequence, task.first + kRows) : sequence;
  load<kRows>(head.q_rows(in.q, task.first), head.size, vectors, 0, tiles[1]);
  load_tile(0, tiles[0]);
  arrive();
  TileA q[kHead / 16];
  load_a_rows(tiles[1], q);
  TileSums out[kHead / 8];
  clear(out);
  Softmax softmax{.scale = problem.scale * kLog2E};
  for (int key = 0; key < end; key += kColumns) {
    KeysAndValues& tile = tiles[key / kColumns % 2];
    arrive();
    if (key + kColumns < end) {
      load_tile(key + kColumns, tiles[(key / kColumns + 1) % 2]);
    }
    TileSums scores[KeysAndValues::kStrips][2];
    HIDUP_UNROLL for (int strip = 0; strip < KeysAndValues::kStrips; ++strip) {
      clear(scores[strip]);
      add_inner_products(q, tile, 16 * strip, scores[strip]);
    }
    if (hides_some(key, kColumns, task.first + at.first_of_warp, sequence, problem.causal)) {
      HIDUP_UNROLL for (int strip = 0; strip < KeysAndValues::kStrips; ++strip) {
        HIDUP_UNROLL for (int j = 0; j < 8; ++j) {
          const int column = key + 16 * strip + at.column(j / 4, j % 4);
          if (!sees(task.first + at.row(j % 4), column, sequence, problem.causal)) {
            scores[strip][j / 4].values[j % 4] = -kInfinity;
          }
        }
      }
    }
    float correction[2];
    softmax.add(scores, correction);
    HIDUP_UNROLL for (int d = 0; d < kHead / 8; ++d) {
      HIDUP_UNROLL for (int i = 0; i < 4; ++i) {
        out[d].values[i] *= correction[i / 2];
      }
    }
    HIDUP_UNROLL for (int strip = 0; strip < KeysAndValues::kStrips; ++strip) {
      add_product(scores[strip], tile, kColumns + 16 * strip, out);
    }
  }
  float factor[2];
  for (int half = 0; half < 2; ++half) {
    const float sum = softmax.total(half);
    factor[half] = 1.0F / sum;
    const int query = task.first + at.row(2 * half);
    if (at.first_column == 0 && query < sequence) {
      lse[head.lse + query] = softmax.largest[half] * problem.scale + logf(sum);
    }
  }
  write<Element, kHead>(out, factor, y + head.y + task.first * head.y_stride, head.y_stride,
                        head.sequence - task.first, head.size, vectors);
}

template <int kHead, typename Element>
void forward(Stream& stream, const AttentionTensors<const Element>& in, Element* y, float* lse,
             const Problem& problem) {
  const bool vectors =
      problem.size.head % kPerVector<Element> == 0 && aligned16(in.q, in.k, in.v, y);
  launch(stream, forward_kernel<Element, kHead>, attention_grid(problem.size, problem.size.heads),
         kTensorThreads, in, y, lse, problem, vectors);
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

template decltype(tensor_attention_forward<BFloat16>) tensor_attention_forward<BFloat16>;
template decltype(tensor_attention_forward<Float16>) tensor_attention_forward<Float16>;

}  // namespace hidup::kernels
