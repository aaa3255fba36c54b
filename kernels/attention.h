// Scaled dot-product attention per head (Vaswani et al. 2017, section 3.2.1):
//   score(i,j) = q_i . k_j / sqrt(head),  y_i = sum over j of softmax_j(score(i,j)) v_j
// If causal, query i sees the keys j <= i only. Memory beside the tensors is
// proportional to the sequence: probabilities exist for a block of queries at a time.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct AttentionSize {
  int64_t batch;
  int64_t sequence;
  int64_t heads;  // of this rank
  int64_t head;   // elements of one head, >= 1
};

// qkv: [batch, sequence, 3, heads, head]; y: [batch, sequence, heads, head];
// lse: f32 [batch, heads, sequence], the log-sum-exp of each query's scores, for the
// backward pass. A back end may round probabilities, and gradients of scores, to Elements before it
// multiplies them.
template <typename Element>
void attention_forward(Stream& stream, const Element* qkv, Element* y, float* lse,
                       AttentionSize size, bool causal);

// Probabilities are recomputed from lse, as in FlashAttention (Dao et al. 2022, algorithm 4). With
// P = exp(score - lse), D_i = dy_i . y_i and dP_ij = dy_i . v_j:
//   dS = P * (dP - D) / sqrt(head),  dq = dS k,  dk = dS^T q,  dv = P^T dy
template <typename Element>
struct AttentionBackward {
  const Element* qkv;  // [batch, sequence, 3, heads, head]
  const Element* y;    // [batch, sequence, heads, head]
  const float* lse;    // f32 [batch, heads, sequence]
  const Element* dy;   // as y
  Element* dqkv;       // as qkv, overwritten
  AttentionSize size;
  bool causal;
};
template <typename Element>
void attention_backward(Stream& stream, const AttentionBackward<Element>& args);

}  // namespace hidup::kernels
