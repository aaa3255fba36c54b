#include "kernels/attention.h"

#include <cmath>
#include <vector>

#include "kernels/attention_head.h"
#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kQueries = 64;  // queries whose scores are held at a time

using Head = AttentionHead;

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
  gemm_floats(block.rows, block.keys, at.size, {.data = q, .stride = at.qkv_stride()},
              {.data = k, .stride = at.qkv_stride(), .transposed = true}, 0.0F, products,
              block.keys);
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
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.size));
  float sums[kQueries];
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = p + i * block.keys;
    const int64_t visible = block.visible(i);
    const float shift = scale * max_of(row, visible);
    sums[i] = exponentials(row, visible, block.keys, scale, shift);
    lse[at.lse + block.first + i] = shift + std::log(sums[i]);
  }
  float* out = y + at.y + block.first * at.width;
  gemm_floats(block.rows, at.size, block.keys, {.data = p, .stride = block.keys},
              {.data = qkv + at.q + 2 * at.width, .stride = at.qkv_stride()}, 0.0F, out, at.width);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float factor = 1.0F / sums[i];
#pragma omp simd
    for (int64_t j = 0; j < at.size; ++j) {
      out[i * at.width + j] *= factor;
    }
  }
}

void zero_keys_and_values(const Head& at, float* dqkv) {
  for (int64_t s = 0; s < at.sequence; ++s) {
    float* dk = dqkv + at.q + s * at.qkv_stride() + at.width;
    std::fill_n(dk, at.size, 0.0F);
    std::fill_n(dk + at.width, at.size, 0.0F);
  }
}

// Writes the block's dq, and adds its share to dk and dv.
void backward_block(const Head& at, const QueryBlock& block, const float* qkv, const float* y,
                    const float* lse, const float* dy, float* dqkv) {
  thread_local std::vector<float> memory;
  float* p = scratch(memory, 2 * kQueries * at.sequence);
  float* ds = p + kQueries * at.sequence;
  const int64_t stride = at.qkv_stride();
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.size));
  const float* y_block = y + at.y + block.first * at.width;
  const float* dy_block = dy + at.y + block.first * at.width;

  query_key_products(at, block, qkv, p);
  gemm_floats(block.rows, block.keys, at.size, {.data = dy_block, .stride = at.width},
              {.data = qkv + at.q + 2 * at.width, .stride = stride, .transposed = true}, 0.0F, ds,
              block.keys);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* p_row = p + i * block.keys;
    float* ds_row = ds + i * block.keys;
    const int64_t offset = i * at.width;
    const float d =
        sum_of(at.size, [=](int64_t j) { return dy_block[offset + j] * y_block[offset + j]; });
    exponentials(p_row, block.visible(i), block.keys, scale, lse[at.lse + block.first + i]);
#pragma omp simd
    for (int64_t j = 0; j < block.keys; ++j) {
      ds_row[j] = p_row[j] * (ds_row[j] - d) * scale;
    }
  }
  const ConstMatrix<float> q = {.data = qkv + at.q + block.first * stride, .stride = stride};
  const ConstMatrix<float> k = {.data = qkv + at.q + at.width, .stride = stride};
  const ConstMatrix<float> p_transposed = {.data = p, .stride = block.keys, .transposed = true};
  const ConstMatrix<float> ds_transposed = {.data = ds, .stride = block.keys, .transposed = true};
  float* dq = dqkv + at.q + block.first * stride;
  float* dk = dqkv + at.q + at.width;
  float* dv = dk + at.width;
  gemm_floats(block.rows, at.size, block.keys, {.data = ds, .stride = block.keys}, k, 0.0F, dq,
              stride);
  gemm_floats(block.keys, at.size, block.rows, ds_transposed, q, 1.0F, dk, stride);
  gemm_floats(block.keys, at.size, block.rows, p_transposed, {.data = dy_block, .stride = at.width},
              1.0F, dv, stride);
}

// A head's part of a tensor with `parts` vectors of each position that lie at.width apart, the
// positions `stride` apart: as floats, densely.
template <typename Element>
void gather(const Head& at, const Element* from, int64_t stride, int64_t parts, float* to) {
  for (int64_t i = 0; i < at.sequence * parts; ++i) {
    widen(from + i / parts * stride + i % parts * at.width, at.size, to + i * at.size);
  }
}
template <typename Element>
void scatter(const Head& at, const float* from, int64_t stride, int64_t parts, Element* to) {
  for (int64_t i = 0; i < at.sequence * parts; ++i) {
    narrow(from + i * at.size, at.size, to + i / parts * stride + i % parts * at.width);
  }
}

// A head that is alone in its tensors.
Head alone(const Head& at) {
  return Head({.batch = 1, .sequence = at.sequence, .heads = 1, .head = at.size}, 0);
}

void backward_head(const Head& at, bool causal, const float* qkv, const float* y, const float* lse,
                   const float* dy, float* dqkv) {
  zero_keys_and_values(at, dqkv);
  for (int64_t block = 0; block < ceil_div(at.sequence, kQueries); ++block) {
    backward_block(at, QueryBlock(at, block, causal), qkv, y, lse, dy, dqkv);
  }
}

void forward(const float* qkv, float* y, float* lse, const AttentionSize& size, bool causal) {
  const int64_t blocks = ceil_div(size.sequence, kQueries);
#pragma omp parallel for schedule(static)
  for (int64_t task = 0; task < size.batch * size.heads * blocks; ++task) {
    const Head at(size, task / blocks);
    forward_block(at, QueryBlock(at, task % blocks, causal), qkv, y, lse);
  }
}

void backward(const AttentionBackward<float>& args) {
#pragma omp parallel for schedule(static)
  for (int64_t index = 0; index < args.size.batch * args.size.heads; ++index) {
    backward_head(Head(args.size, index), args.causal, args.qkv, args.y, args.lse, args.dy,
                  args.dqkv);
  }
}

// Other elements are computed by way of floats, a head at a time.
template <typename Element>
void forward(const Element* qkv, Element* y, float* lse, const AttentionSize& size, bool causal) {
#pragma omp parallel for schedule(static)
  for (int64_t index = 0; index < size.batch * size.heads; ++index) {
    thread_local std::vector<float> memory;
    const Head at(size, index);
    const int64_t n = at.sequence * at.size;
    float* const in = scratch(memory, 4 * n);
    float* const out = in + 3 * n;
    gather(at, qkv + at.q, at.qkv_stride(), 3, in);
    for (int64_t block = 0; block < ceil_div(size.sequence, kQueries); ++block) {
      forward_block(alone(at), QueryBlock(at, block, causal), in, out, lse + at.lse);
    }
    scatter(at, out, at.width, 1, y + at.y);
  }
}

template <typename Element>
void backward(const AttentionBackward<Element>& args) {
#pragma omp parallel for schedule(static)
  for (int64_t index = 0; index < args.size.batch * args.size.heads; ++index) {
    thread_local std::vector<float> memory;
    const Head at(args.size, index);
    const int64_t n = at.sequence * at.size;
    float* const in = scratch(memory, 8 * n);
    float* const out = in + 3 * n;
    float* const gradient = out + n;
    float* const result = gradient + n;
    gather(at, args.qkv + at.q, at.qkv_stride(), 3, in);
    gather(at, args.y + at.y, at.width, 1, out);
    gather(at, args.dy + at.y, at.width, 1, gradient);
    backward_head(alone(at), args.causal, in, out, args.lse + at.lse, gradient, result);
    scatter(at, result, at.qkv_stride(), 3, args.dqkv + at.q);
  }
}

}  // namespace

template <typename Element>
void attention_forward(Stream& stream, const Element* qkv, Element* y, float* lse,
                       AttentionSize size, bool causal) {
  check_size(size);
  stream.enqueue([=] { forward(qkv, y, lse, size, causal); });
}

template <typename Element>
void attention_backward(Stream& stream, const AttentionBackward<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] { backward(args); });
}

#define INSTANTIATE(Element)                                                \
  template decltype(attention_forward<Element>) attention_forward<Element>; \
  template decltype(attention_backward<Element>) attention_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
