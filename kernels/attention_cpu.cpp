#include "kernels/attention.h"

#include <cmath>
#include <vector>

#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kQueries = 64;  // queries whose scores are held at a time

// One head of one sequence within the tensors.
struct Head {
  Head(const AttentionSize& size, int64_t index)
      : sequence(size.sequence),
        head(size.head),
        width(size.heads * size.head),
        q(index / size.heads * size.sequence * 3 * width + index % size.heads * size.head),
        y(index / size.heads * size.sequence * width + index % size.heads * size.head),
        lse(index * size.sequence) {}

  int64_t sequence;
  int64_t head;
  int64_t width;  // elements from q to k and from k to v; positions are 3*width apart
  int64_t q;      // where the first position's q begins in qkv
  int64_t y;      // where its y begins in y
  int64_t lse;

  int64_t qkv_stride() const { return 3 * width; }
};

// Queries first .. first+rows-1, and the keys that any of them sees.
struct QueryBlock {
  QueryBlock(const Head& at, int64_t index, bool is_causal)
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

// products[rows, keys] = q k^T, without the scale
void query_key_products(const Head& at, const QueryBlock& block, const float* qkv,
                        float* products) {
  const float* q = qkv + at.q + block.first * at.qkv_stride();
  const float* k = qkv + at.q + at.width;
  gemm(block.rows, block.keys, at.head, {.data = q, .stride = at.qkv_stride()},
       {.data = k, .stride = at.qkv_stride(), .transposed = true}, 0.0F, products, block.keys);
}

// Turns the first `visible` of row's products into exp(scale * product - shift), the
// others, up to `keys`, into 0, and returns their sum.
float exponentials(float* row, int64_t visible, int64_t keys, float scale, float shift) {
  const float sum =
      sum_of(visible, [=](int64_t j) { return row[j] = fast_exp(row[j] * scale - shift); });
  std::fill(row + visible, row + keys, 0.0F);
  return sum;
}

void forward_block(const Head& at, const QueryBlock& block, const float* qkv, float* y,
                   float* lse) {
  thread_local std::vector<float> memory;
  float* p = scratch(memory, kQueries * at.sequence);
  query_key_products(at, block, qkv, p);
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.head));
  float sums[kQueries];
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = p + i * block.keys;
    const int64_t visible = block.visible(i);
    const float shift = scale * max_of(row, visible);
    sums[i] = exponentials(row, visible, block.keys, scale, shift);
    lse[at.lse + block.first + i] = shift + std::log(sums[i]);
  }
  float* out = y + at.y + block.first * at.width;
  gemm(block.rows, at.head, block.keys, {.data = p, .stride = block.keys},
       {.data = qkv + at.q + 2 * at.width, .stride = at.qkv_stride()}, 0.0F, out, at.width);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float factor = 1.0F / sums[i];
#pragma omp simd
    for (int64_t j = 0; j < at.head; ++j) {
      out[i * at.width + j] *= factor;
    }
  }
}

void zero_keys_and_values(const Head& at, float* dqkv) {
  for (int64_t s = 0; s < at.sequence; ++s) {
    float* dk = dqkv + at.q + s * at.qkv_stride() + at.width;
    std::fill_n(dk, at.head, 0.0F);
    std::fill_n(dk + at.width, at.head, 0.0F);
  }
}

// Writes the block's dq, and adds its share to dk and dv.
void backward_block(const Head& at, const QueryBlock& block, const float* qkv, const float* y,
                    const float* lse, const float* dy, float* dqkv) {
  thread_local std::vector<float> memory;
  float* p = scratch(memory, 2 * kQueries * at.sequence);
  float* ds = p + kQueries * at.sequence;
  const int64_t stride = at.qkv_stride();
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.head));
  const float* y_block = y + at.y + block.first * at.width;
  const float* dy_block = dy + at.y + block.first * at.width;

  query_key_products(at, block, qkv, p);
  gemm(block.rows, block.keys, at.head, {.data = dy_block, .stride = at.width},
       {.data = qkv + at.q + 2 * at.width, .stride = stride, .transposed = true}, 0.0F, ds,
       block.keys);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* p_row = p + i * block.keys;
    float* ds_row = ds + i * block.keys;
    const int64_t offset = i * at.width;
    const float d =
        sum_of(at.head, [=](int64_t j) { return dy_block[offset + j] * y_block[offset + j]; });
    exponentials(p_row, block.visible(i), block.keys, scale, lse[at.lse + block.first + i]);
#pragma omp simd
    for (int64_t j = 0; j < block.keys; ++j) {
      ds_row[j] = p_row[j] * (ds_row[j] - d) * scale;
    }
  }
  const ConstMatrix q = {.data = qkv + at.q + block.first * stride, .stride = stride};
  const ConstMatrix k = {.data = qkv + at.q + at.width, .stride = stride};
  const ConstMatrix p_transposed = {.data = p, .stride = block.keys, .transposed = true};
  const ConstMatrix ds_transposed = {.data = ds, .stride = block.keys, .transposed = true};
  float* dq = dqkv + at.q + block.first * stride;
  float* dk = dqkv + at.q + at.width;
  float* dv = dk + at.width;
  gemm(block.rows, at.head, block.keys, {.data = ds, .stride = block.keys}, k, 0.0F, dq, stride);
  gemm(block.keys, at.head, block.rows, ds_transposed, q, 1.0F, dk, stride);
  gemm(block.keys, at.head, block.rows, p_transposed, {.data = dy_block, .stride = at.width}, 1.0F,
       dv, stride);
}

}  // namespace

void attention_forward(Stream& stream, const float* qkv, float* y, float* lse, AttentionSize size,
                       bool causal) {
  stream.enqueue([=] {
    const int64_t blocks = ceil_div(size.sequence, kQueries);
#pragma omp parallel for schedule(static)
    for (int64_t task = 0; task < size.batch * size.heads * blocks; ++task) {
      const Head at(size, task / blocks);
      forward_block(at, QueryBlock(at, task % blocks, causal), qkv, y, lse);
    }
  });
}

void attention_backward(Stream& stream, const float* qkv, const float* y, const float* lse,
                        const float* dy, float* dqkv, AttentionSize size, bool causal) {
  stream.enqueue([=] {
#pragma omp parallel for schedule(static)
    for (int64_t index = 0; index < size.batch * size.heads; ++index) {
      const Head at(size, index);
      zero_keys_and_values(at, dqkv);
      for (int64_t block = 0; block < ceil_div(size.sequence, kQueries); ++block) {
        backward_block(at, QueryBlock(at, block, causal), qkv, y, lse, dy, dqkv);
      }
    }
  });
}

}  // namespace hidup::kernels
