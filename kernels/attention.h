// Scaled dot-product attention per head (Vaswani et al. 2017, section 3.2.1):
//   score(i,j) = q_i . k_j / sqrt(head),  y_i = sum over j of softmax_j(score(i,j)) v_j
// If causal, query i sees the keys j <= i only. Memory beside the tensors is
// proportional to the sequence: probabilities exist for a block of queries at a time.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

struct AttentionSize {
  int64_t batch;
  int64_t sequence;
  int64_t heads;  // of this rank
  int64_t head;   // elements of one head, >= 1
};

// qkv: f32 [batch, sequence, 3, heads, head]; y: f32 [batch, sequence, heads, head];
// lse: f32 [batch, heads, sequence], the log-sum-exp of each query's scores, for the
// backward pass.
void attention_forward(Stream& stream, const float* qkv, float* y, float* lse, AttentionSize size,
                       bool causal);

// dqkv: f32 as qkv, overwritten; dy: f32 as y. Probabilities are recomputed from lse, as in
// FlashAttention (Dao et al. 2022, algorithm 4): with P = exp(score - lse), D_i = dy_i . y_i
// and dP_ij = dy_i . v_j:
//   dS = P * (dP - D) / sqrt(head),  dq = dS k,  dk = dS^T q,  dv = P^T dy
void attention_backward(Stream& stream, const float* qkv, const float* y, const float* lse,
                        const float* dy, float* dqkv, AttentionSize size, bool causal);

}  // namespace hidup::kernels
