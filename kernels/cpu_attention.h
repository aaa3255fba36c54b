// Attention of one head from products of floats or of unconverted elements, for CPU kernels.
#pragma once

#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/attention_head.h"
#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"

namespace hidup::kernels {

constexpr int64_t kQueries = 64;  // queries whose scores exist at a time

// Queries first .. first+rows-1, and the keys that any of them sees.
struct QueryBlock {
  QueryBlock(const AttentionHead& at, int64_t index, bool is_causal)
      : first(index * kQueries),
        rows(std::min(kQueries, at.sequence - first)),
        keys(is_causal ? first + rows : at.sequence),
        causal(is_causal) {}

  int64_t first;
  int64_t rows;
  int64_t keys;
  bool causal;

  int64_t visible(int64_t row) const { return causal ? first + row + 1 : keys; }
};

// Operands of products, and their float results.
template <typename Operand>
struct HeadsForward {
  AttentionTensors<const Operand> in;
  float* y;
  float* lse;
  bool causal;
};
template <typename Operand>
struct HeadsBackward {
  AttentionTensors<const Operand> in;
  const Operand* y;
  const float* lse;
  const Operand* dy;
  AttentionTensors<float> grad;
  bool causal;
};

// Returns a block's numbers as operands, rounded unless these are floats.
template <typename Operand>
const Operand* as_operands(const float* numbers, int64_t n, std::vector<Operand>& memory) {
  if constexpr (std::is_same_v<Operand, float>) {
    return numbers;
  } else {
    Operand* const rounded = scratch(memory, n);
    narrow(numbers, n, rounded);
    return rounded;
  }
}

template <typename Operand>
ConstMatrix<Operand> queries(const AttentionHead& at, const QueryBlock& block,
                             const AttentionTensors<const Operand>& in) {
  return {.data = in.q + at.q + block.first * at.q_stride, .stride = at.q_stride};
}

// products[rows, keys] = q k^T, unscaled.
template <typename Operand>
void query_key_products(const AttentionHead& at, const QueryBlock& block,
                        const AttentionTensors<const Operand>& in, float* products) {
  gemm(block.rows, block.keys, at.size, queries(at, block, in),
       {.data = in.k + at.kv, .stride = at.kv_stride, .transposed = true}, 0.0F, products,
       block.keys);
}

// Replaces the first `visible` products of a row by exp(scale * product - shift), and the others,
// up to `keys`, by 0. Returns their sum.
inline float exponentials(float* row, int64_t visible, int64_t keys, float scale, float shift) {
  const float sum =
      sum_of(visible, [=](int64_t j) { return row[j] = fast_exp(row[j] * scale - shift); });
  std::fill(row + visible, row + keys, 0.0F);
  return sum;
}

// `at`: place of the operands and of lse; `to`: place of the other results.
template <typename Operand>
void forward_block(const AttentionHead& at, const AttentionHead& to, const QueryBlock& block,
                   const HeadsForward<Operand>& args) {
  thread_local std::vector<float> memory;
  thread_local std::vector<Operand> p_memory;
  float* p = scratch(memory, kQueries * at.sequence);
  query_key_products(at, block, args.in, p);
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.size));
  float sums[kQueries];
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = p + i * block.keys;
    const int64_t visible = block.visible(i);
    const float shift = scale * max_of(row, visible);
    sums[i] = exponentials(row, visible, block.keys, scale, shift);
    args.lse[at.lse + block.first + i] = shift + std::log(sums[i]);
  }
  float* out = args.y + to.y + block.first * to.y_stride;
  gemm(block.rows, at.size, block.keys,
       ConstMatrix<Operand>{.data = as_operands(p, block.rows * block.keys, p_memory),
                            .stride = block.keys},
       {.data = args.in.v + at.kv, .stride = at.kv_stride}, 0.0F, out, to.y_stride);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float factor = 1.0F / sums[i];
#pragma omp simd
    for (int64_t j = 0; j < at.size; ++j) {
      out[i * to.y_stride + j] *= factor;
    }
  }
}

// Writes the block's dq, and adds its share to dk and dv. `at`, `to`: like forward_block()'s.
template <typename Operand>
void backward_block(const AttentionHead& at, const AttentionHead& to, const QueryBlock& block,
                    const HeadsBackward<Operand>& args) {
  thread_local std::vector<float> memory;
  thread_local std::vector<Operand> p_memory;
  thread_local std::vector<Operand> ds_memory;
  float* p = scratch(memory, 2 * kQueries * at.sequence);
  float* ds = p + kQueries * at.sequence;
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.size));
  const Operand* y_block = args.y + at.y + block.first * at.y_stride;
  const Operand* dy_block = args.dy + at.y + block.first * at.y_stride;
  const ConstMatrix<Operand> dy = {.data = dy_block, .stride = at.y_stride};

  query_key_products(at, block, args.in, p);
  gemm(block.rows, block.keys, at.size, dy,
       {.data = args.in.v + at.kv, .stride = at.kv_stride, .transposed = true}, 0.0F, ds,
       block.keys);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* p_row = p + i * block.keys;
    float* ds_row = ds + i * block.keys;
    const int64_t offset = i * at.y_stride;
    const float d = sum_of(at.size, [=](int64_t j) {
      return float{dy_block[offset + j]} * float{y_block[offset + j]};
    });
    exponentials(p_row, block.visible(i), block.keys, scale, args.lse[at.lse + block.first + i]);
#pragma omp simd
    for (int64_t j = 0; j < block.keys; ++j) {
      ds_row[j] = p_row[j] * (ds_row[j] - d) * scale;
    }
  }
  const int64_t n = block.rows * block.keys;
  ConstMatrix<Operand> of_p = {.data = as_operands(p, n, p_memory), .stride = block.keys};
  ConstMatrix<Operand> of_ds = {.data = as_operands(ds, n, ds_memory), .stride = block.keys};
  gemm(block.rows, at.size, block.keys, of_ds, {.data = args.in.k + at.kv, .stride = at.kv_stride},
       0.0F, args.grad.q + to.q + block.first * to.q_stride, to.q_stride);
  of_p.transposed = of_ds.transposed = true;
  gemm(block.keys, at.size, block.rows, of_ds, queries(at, block, args.in), 1.0F,
       args.grad.k + to.kv, to.kv_stride);
  gemm(block.keys, at.size, block.rows, of_p, dy, 1.0F, args.grad.v + to.kv, to.kv_stride);
}

template <typename Operand>
void forward_head(const AttentionHead& at, const AttentionHead& to,
                  const HeadsForward<Operand>& args) {
  for (int64_t block = 0; block < ceil_div(at.sequence, kQueries); ++block) {
    forward_block(at, to, QueryBlock(at, block, args.causal), args);
  }
}
template <typename Operand>
void backward_head(const AttentionHead& at, const AttentionHead& to,
                   const HeadsBackward<Operand>& args) {
  for (int64_t block = 0; block < ceil_div(at.sequence, kQueries); ++block) {
    backward_block(at, to, QueryBlock(at, block, args.causal), args);
  }
}

}  // namespace hidup::kernels
