// Inside the CUDA kernels of attention: what the one for tensor cores and the other one share.
#pragma once

#include <cstdint>

#include "kernels/attention_head.h"
#include "kernels/cuda_elements.h"

namespace hidup::kernels {

// A part of a tensor: rows `stride` elements apart, `rows` of them from `data` on.
template <typename Element>
struct Rows {
  const Element* data;
  int64_t stride;
  int64_t rows;
};

struct Head : AttentionHead {
  template <typename Element>
  __device__ Head(const AttentionSize& of, const AttentionTensors<Element>& in, int64_t index)
      : AttentionHead(of, in.q_stride, in.kv_stride, index) {}

  // Rows of q, of k or v, and of y or its gradient from position `first` on.
  template <typename Element>
  __device__ Rows<Element> q_rows(const Element* tensor, int64_t first) const {
    return {tensor + q + first * q_stride, q_stride, sequence - first};
  }
  template <typename Element>
  __device__ Rows<Element> kv_rows(const Element* tensor, int64_t first) const {
    return {tensor + kv + first * kv_stride, kv_stride, sequence - first};
  }
  template <typename Element>
  __device__ Rows<Element> y_rows(const Element* tensor, int64_t first) const {
    return {tensor + y + first * y_stride, y_stride, sequence - first};
  }
};

// Keys and values that a group of heads shares; `index` counts the groups of all sequences.
struct Group {
  int64_t heads;
  int64_t first_head;  // of all sequences' heads
  int64_t kv;          // where the first position begins in k and v

  __device__ Group(const AttentionSize& of, int64_t kv_stride, int64_t index)
      : heads(of.heads / of.kv_heads),
        first_head(index * heads),
        kv(index / of.kv_heads * of.sequence * kv_stride + index % of.kv_heads * of.head) {}
};

// Whether a query sees a key.
template <typename Index>
__device__ bool sees(Index query, Index key, Index sequence, bool causal) {
  return key < sequence && (!causal || key <= query);
}
// Whether one of the queries from `query` on does not see all `count` keys from `key` on.
__device__ inline bool hides_some(int key, int count, int query, int sequence, bool causal) {
  return key + count > sequence || (causal && key + count - 1 > query);
}

struct Problem {
  AttentionSize size;
  bool causal;
  float scale;
};

template <typename Element>
struct BackwardInputs {
  AttentionTensors<const Element> in;
  const float* lse;
  const Element* dy;
  const float* d;
};

// Attention on tensor cores, for heads of up to kLongestTensorHead elements. The inputs' d is D of
// attention_backward(), f32 [batch, heads, sequence].
inline constexpr int64_t kLongestTensorHead = 128;

template <typename Element>
void tensor_attention_forward(Stream& stream, const AttentionTensors<const Element>& in, Element* y,
                              float* lse, const Problem& problem);
template <typename Element>
void tensor_attention_backward(Stream& stream, const BackwardInputs<Element>& in,
                               const AttentionTensors<Element>& grad, const Problem& problem);

}  // namespace hidup::kernels
