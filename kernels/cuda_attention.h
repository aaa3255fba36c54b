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
  __device__ Head(const AttentionSize& of, int64_t index) : AttentionHead(of, index) {}

  // Rows of q (which = 0), k (1) or v (2) from position `first` on.
  template <typename Element>
  __device__ Rows<Element> qkv_rows(const Element* qkv, int which, int64_t first) const {
    return {qkv + q + which * width + first * qkv_stride(), qkv_stride(), sequence - first};
  }
  template <typename Element>
  __device__ Rows<Element> y_rows(const Element* tensor, int64_t first) const {
    return {tensor + y + first * width, width, sequence - first};
  }
};

// Whether query i sees key j.
__device__ inline bool sees(int64_t query, int64_t key, int64_t sequence, bool causal) {
  return key < sequence && (!causal || key <= query);
}

struct Problem {
  AttentionSize size;
  bool causal;
  float scale;
};

template <typename Element>
struct BackwardInputs {
  const Element* qkv;
  const float* lse;
  const Element* dy;
  const float* d;
};

// Attention on tensor cores, for heads of up to kLongestTensorHead elements. The inputs' d is D of
// attention_backward(), f32 [batch, heads, sequence].
inline constexpr int64_t kLongestTensorHead = 128;

template <typename Element>
void tensor_attention_forward(Stream& stream, const Element* qkv, Element* y, float* lse,
                              const Problem& problem);
template <typename Element>
void tensor_attention_backward(Stream& stream, const BackwardInputs<Element>& in, Element* dqkv,
                               const Problem& problem);

}  // namespace hidup::kernels
