// Code that attention's CUDA kernels with and without tensor cores share.
#pragma once

#include <cstdint>

#include "kernels/attention_head.h"
#include "kernels/cuda_elements.h"

namespace hidup::kernels {

// A part of a tensor: `rows` rows from `data` on, `stride` elements apart.
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

  // Return rows of q, of k or v, and of y or its gradient from position `first` on.
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

// The keys and values that a group of heads shares; `index` counts the groups of all sequences.
struct Group {
  int64_t heads;
  int64_t first_head;  // index among the heads of all sequences
  int64_t kv;          // start of the first position in k and v

  __device__ Group(const AttentionSize& of, int64_t kv_stride, int64_t index)
      : heads(of.heads / of.kv_heads),
        first_head(index * heads),
        kv(index / of.kv_heads * of.sequence * kv_stride + index % of.kv_heads * of.head) {}
};

// Returns true if a query sees a key.
template <typename Index>
__device__ bool sees(Index query, Index key, Index sequence, bool causal) {
  return key < sequence && (!causal || key <= query);
}
// Returns true if some query from `query` on does not see all `count` keys from `key` on.
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

// Attention on tensor cores, for heads of up to kLongestTensorHead elements. The inputs' d is the D
// of attention_backward(), f32 [batch, heads, sequence].
inline constexpr int64_t kLongestTensorHead = 128;

template <typename Element>
void tensor_attention_forward(Stream& stream, const AttentionTensors<const Element>& in, Element* y,
                              float* lse, const Problem& problem);
template <typename Element>
void tensor_attention_backward(Stream& stream, const BackwardInputs<Element>& in,
                               const AttentionTensors<Element>& grad, const Problem& problem);

}  // namespace hidup::kernels
