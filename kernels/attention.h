// Scaled dot-product attention per head (Vaswani et al. 2017, section 3.2.1):
//   score(i,j) = q_i . k_j / sqrt(head),  y_i = sum over j of softmax_j(score(i,j)) v_j
// Heads share keys and values in groups (Ainslie et al., "GQA", 2023): head h uses those of
// h / (heads / kv_heads). If causal, query i sees only the keys j <= i. Scratch memory is
// proportional to the sequence: probabilities exist for one block of queries at a time.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct AttentionSize {
  int64_t batch;
  int64_t sequence;
  int64_t heads;     // of this rank, a multiple of kv_heads
  int64_t kv_heads;  // of this rank
  int64_t head;      // elements of one head, >= 1
};

// q: [batch, sequence, heads, head]; k, v: [batch, sequence, kv_heads, head]. The positions of a
// tensor may lie farther apart: q_stride, kv_stride elements.
template <typename Element>
struct AttentionTensors {
  Element* q;
  Element* k;
  Element* v;
  int64_t q_stride;
  int64_t kv_stride;
};

// Return views of separate dense tensors, and of one tensor [batch, sequence, 3, heads, head].
template <typename Element>
AttentionTensors<Element> apart(Element* q, Element* k, Element* v, const AttentionSize& size) {
  return {q, k, v, size.heads * size.head, size.kv_heads * size.head};
}
template <typename Element>
AttentionTensors<Element> packed(Element* qkv, const AttentionSize& size) {
  const int64_t width = size.heads * size.head;
  return {qkv, qkv + width, qkv + 2 * width, 3 * width, 3 * width};
}

template <typename Element>
struct AttentionForward {
  AttentionTensors<const Element> in;
  Element* y;  // [batch, sequence, heads, head]
  float* lse;  // f32 [batch, heads, sequence], log-sum-exp of scores; for the backward pass
  AttentionSize size;
  bool causal;
};
// A back end may round probabilities, and gradients of scores, to Elements before multiplying them.
template <typename Element>
void attention_forward(Stream& stream, const AttentionForward<Element>& args);

// Recomputes probabilities from lse, as in FlashAttention (Dao et al. 2022, algorithm 4). With
// P = exp(score - lse), D_i = dy_i . y_i and dP_ij = dy_i . v_j:
//   dS = P * (dP - D) / sqrt(head),  dq = dS k,  dk = dS^T q,  dv = P^T dy
// dk and dv are sums over the heads of a group.
template <typename Element>
struct AttentionBackward {
  AttentionTensors<const Element> in;
  const Element* y;                // [batch, sequence, heads, head]
  const float* lse;                // f32 [batch, heads, sequence]
  const Element* dy;               // like y
  AttentionTensors<Element> grad;  // strides of `in`; overwritten
  AttentionSize size;
  bool causal;
};
template <typename Element>
void attention_backward(Stream& stream, const AttentionBackward<Element>& args);

}  // namespace hidup::kernels
