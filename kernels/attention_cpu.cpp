#include "kernels/attention.h"

#include <cmath>
#include <vector>

#include "kernels/attention_head.h"
#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kQueries = 64;  // queries whose scores are held at a time

using Head = AttentionHead;
using Inputs = AttentionTensors<const float>;

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

ConstMatrix<float> queries(const Head& at, const QueryBlock& block, const Inputs& in) {
  return {.data = in.q + at.q + block.first * at.q_stride, .stride = at.q_stride};
}

// products[rows, keys] = q k^T, without the scale
void query_key_products(const Head& at, const QueryBlock& block, const Inputs& in,
                        float* products) {
  gemm(block.rows, block.keys, at.size, queries(at, block, in),
       {.data = in.k + at.kv, .stride = at.kv_stride, .transposed = true}, 0.0F, products,
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

void forward_block(const Head& at, const QueryBlock& block, const Inputs& in, float* y,
                   float* lse) {
  thread_local std::vector<float> memory;
  float* p = scratch(memory, kQueries * at.sequence);
  query_key_products(at, block, in, p);
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.size));
  float sums[kQueries];
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = p + i * block.keys;
    const int64_t visible = block.visible(i);
    const float shift = scale * max_of(row, visible);
    sums[i] = exponentials(row, visible, block.keys, scale, shift);
    lse[at.lse + block.first + i] = shift + std::log(sums[i]);
  }
  float* out = y + at.y + block.first * at.y_stride;
  gemm(block.rows, at.size, block.keys, {.data = p, .stride = block.keys},
       {.data = in.v + at.kv, .stride = at.kv_stride}, 0.0F, out, at.y_stride);
  for (int64_t i = 0; i < block.rows; ++i) {
    const float factor = 1.0F / sums[i];
#pragma omp simd
    for (int64_t j = 0; j < at.size; ++j) {
      out[i * at.y_stride + j] *= factor;
    }
  }
}

// Writes the block's dq, and adds its share to dk and dv.
void backward_block(const Head& at, const QueryBlock& block, const AttentionBackward<float>& args) {
  thread_local std::vector<float> memory;
  float* p = scratch(memory, 2 * kQueries * at.sequence);
  float* ds = p + kQueries * at.sequence;
  const Inputs& in = args.in;
  const float scale = 1.0F / std::sqrt(static_cast<float>(at.size));
  const float* y_block = args.y + at.y + block.first * at.y_stride;
  const float* dy_block = args.dy + at.y + block.first * at.y_stride;

  query_key_products(at, block, in, p);
  gemm(block.rows, block.keys, at.size, {.data = dy_block, .stride = at.y_stride},
       {.data = in.v + at.kv, .stride = at.kv_stride, .transposed = true}, 0.0F, ds, block.keys);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* p_row = p + i * block.keys;
    float* ds_row = ds + i * block.keys;
    const int64_t offset = i * at.y_stride;
    const float d =
        sum_of(at.size, [=](int64_t j) { return dy_block[offset + j] * y_block[offset + j]; });
    exponentials(p_row, block.visible(i), block.keys, scale, args.lse[at.lse + block.first + i]);
#pragma omp simd
    for (int64_t j = 0; j < block.keys; ++j) {
      ds_row[j] = p_row[j] * (ds_row[j] - d) * scale;
    }
  }
  const ConstMatrix<float> k = {.data = in.k + at.kv, .stride = at.kv_stride};
  const ConstMatrix<float> p_transposed = {.data = p, .stride = block.keys, .transposed = true};
  const ConstMatrix<float> ds_transposed = {.data = ds, .stride = block.keys, .transposed = true};
  gemm(block.rows, at.size, block.keys, {.data = ds, .stride = block.keys}, k, 0.0F,
       args.grad.q + at.q + block.first * at.q_stride, at.q_stride);
  gemm(block.keys, at.size, block.rows, ds_transposed, queries(at, block, in), 1.0F,
       args.grad.k + at.kv, at.kv_stride);
  gemm(block.keys, at.size, block.rows, p_transposed, {.data = dy_block, .stride = at.y_stride},
       1.0F, args.grad.v + at.kv, at.kv_stride);
}

void backward_head(const Head& at, const AttentionBackward<float>& args) {
  for (int64_t block = 0; block < ceil_div(at.sequence, kQueries); ++block) {
    backward_block(at, QueryBlock(at, block, args.causal), args);
  }
}

// `size` elements of every position.
struct Strip {
  int64_t positions;
  int64_t size;
};
template <typename Element>
void gather(const Strip& strip, const Element* from, int64_t stride, float* to) {
  for (int64_t i = 0; i < strip.positions; ++i) {
    widen(from + i * stride, strip.size, to + i * strip.size);
  }
}
template <typename Element>
void scatter(const Strip& strip, const float* from, Element* to, int64_t stride) {
  for (int64_t i = 0; i < strip.positions; ++i) {
    narrow(from + i * strip.size, strip.size, to + i * stride);
  }
}
template <typename Element>
void zero(const Strip& strip, Element* to, int64_t stride) {
  for (int64_t i = 0; i < strip.positions; ++i) {
    std::fill_n(to + i * stride, strip.size, Element(0.0F));
  }
}

// A head that is alone in its tensors.
AttentionSize alone(const AttentionSize& size) {
  return {.batch = 1, .sequence = size.sequence, .heads = 1, .kv_heads = 1, .head = size.head};
}

void forward(const AttentionForward<float>& args) {
  const AttentionSize& size = args.size;
  const int64_t blocks = ceil_div(size.sequence, kQueries);
  for_each(size.batch * size.heads * blocks, [&](int64_t task) {
    const Head at(size, args.in.q_stride, args.in.kv_stride, task / blocks);
    forward_block(at, QueryBlock(at, task % blocks, args.causal), args.in, args.y, args.lse);
  });
}

// Where the keys and values of a group lie: `index` counts the groups of all sequences.
int64_t start_of_group(const AttentionSize& size, int64_t kv_stride, int64_t index) {
  return index / size.kv_heads * size.sequence * kv_stride + index % size.kv_heads * size.head;
}

void backward(const AttentionBackward<float>& args) {
  const AttentionSize& size = args.size;
  const Strip strip{size.sequence, size.head};
  for_each(size.batch * size.kv_heads, [&](int64_t index) {
    const int64_t kv = start_of_group(size, args.in.kv_stride, index);
    zero(strip, args.grad.k + kv, args.in.kv_stride);
    zero(strip, args.grad.v + kv, args.in.kv_stride);
    const int64_t group = size.heads / size.kv_heads;
    for (int64_t head = index * group; head < (index + 1) * group; ++head) {
      backward_head(Head(size, args.in.q_stride, args.in.kv_stride, head), args);
    }
  });
}

// Other elements are computed by way of floats, a head at a time.
template <typename Element>
void forward(const AttentionForward<Element>& args) {
  const AttentionSize& size = args.size;
  const AttentionSize one = alone(size);
  const Strip strip{size.sequence, size.head};
  const int64_t n = size.sequence * size.head;
  for_each(size.batch * size.heads, [&](int64_t index) {
    thread_local std::vector<float> memory;
    const Head at(size, args.in.q_stride, args.in.kv_stride, index);
    float* const q = scratch(memory, 4 * n);
    float* const k = q + n;
    float* const v = k + n;
    float* const y = v + n;
    gather(strip, args.in.q + at.q, at.q_stride, q);
    gather(strip, args.in.k + at.kv, at.kv_stride, k);
    gather(strip, args.in.v + at.kv, at.kv_stride, v);
    const Head dense(one, size.head, size.head, 0);
    for (int64_t block = 0; block < ceil_div(size.sequence, kQueries); ++block) {
      forward_block(dense, QueryBlock(dense, block, args.causal), apart<const float>(q, k, v, one),
                    y, args.lse + at.lse);
    }
    scatter(strip, y, args.y + at.y, at.y_stride);
  });
}

template <typename Element>
void backward(const AttentionBackward<Element>& args) {
  const AttentionSize& size = args.size;
  const AttentionSize one = alone(size);
  const Strip strip{size.sequence, size.head};
  const int64_t n = size.sequence * size.head;
  for_each(size.batch * size.kv_heads, [&](int64_t index) {
    thread_local std::vector<float> memory;
    float* const q = scratch(memory, 8 * n);
    float* const k = q + n;
    float* const v = k + n;
    float* const y = v + n;
    float* const dy = y + n;
    float* const dq = dy + n;
    float* const dk = dq + n;
    float* const dv = dk + n;
    const int64_t kv = start_of_group(size, args.in.kv_stride, index);
    gather(strip, args.in.k + kv, args.in.kv_stride, k);
    gather(strip, args.in.v + kv, args.in.kv_stride, v);
    std::fill_n(dk, 2 * n, 0.0F);
    const int64_t group = size.heads / size.kv_heads;
    for (int64_t head = index * group; head < (index + 1) * group; ++head) {
      const Head at(size, args.in.q_stride, args.in.kv_stride, head);
      gather(strip, args.in.q + at.q, at.q_stride, q);
      gather(strip, args.y + at.y, at.y_stride, y);
      gather(strip, args.dy + at.y, at.y_stride, dy);
      backward_head(Head(one, size.head, size.head, 0), {.in = apart<const float>(q, k, v, one),
                                                         .y = y,
                                                         .lse = args.lse + at.lse,
                                                         .dy = dy,
                                                         .grad = apart(dq, dk, dv, one),
                                                         .size = one,
                                                         .causal = args.causal});
      scatter(strip, dq, args.grad.q + at.q, at.q_stride);
    }
    scatter(strip, dk, args.grad.k + kv, args.in.kv_stride);
    scatter(strip, dv, args.grad.v + kv, args.in.kv_stride);
  });
}

}  // namespace

template <typename Element>
void attention_forward(Stream& stream, const AttentionForward<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] { forward(args); });
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
