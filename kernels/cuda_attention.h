// Inside the CUDA kernels of attention: what the one for tensor cores and the other one share.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda_elements.h"

namespace hidup::kernels {

// A part of a tensor: rows `stride` elements apart, `rows` of them from `data` on.
template <typename Element>
struct Rows {
  const Element* data;
  int64_t stride;
  int64_t rows;
};

// One head of one sequence within the tensors.
struct Head {
  int64_t sequence;
  int64_t size;
  int64_t width;  // elements from q to k and from k to v; positions are 3*width apart
  int64_t q;      // where the first position's q begins in qkv
  int64_t y;      // where its y begins in y
  int64_t lse;

  __device__ Head(const AttentionSize& of, int64_t index)
      : sequence(of.sequence),
        size(of.head),
        width(of.heads * of.head),
        q(index / of.heads * of.sequence * 3 * width + index % of.heads * of.head),
        y(index / of.heads * of.sequence * width + index % of.heads * of.head),
        lse(index * of.sequence) {}

  // Rows of q (which = 0), k (1) or v (2) from position `first` on.
  template <typename Element>
  __device__ Rows<Element> qkv_rows(const Element* qkv, int which, int64_t first) const {
    return {qkv + q + which * width + first * 3 * width, 3 * width, sequence - first};
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

// Attention on tensor cores, for heads of up to kLongestTensorHead elements. The d of the inputs is
// that of attention_backward(), f32 [batch, heads, sequence].
inline constexpr int64_t kLongestTensorHead = 128;

template <typename Element>
void tensor_attention_forward(Stream& stream, const Element* qkv, Element* y, float* lse,
                              const Problem& problem);
template <typename Element>
void tensor_attention_backward(Stream& stream, const BackwardInputs<Element>& in, Element* dqkv,
                               const Problem& problem);

}  // namespace hidup::kernels
