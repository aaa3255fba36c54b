// Cross entropy of the softmax of logits with one right class per row.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// lse[r] = log(sum over v of exp(logits[r,v]));
// loss (+)= scale * sum over r of (lse[r] - logits[r, targets[r]]), summed in double.
// logits: f32 [rows, vocab]; targets: i32 [rows], each in 0 .. vocab-1; lse: f32 [rows];
// loss: f32 [1].
void cross_entropy_forward(Stream& stream, const float* logits, const int32_t* targets, float* lse,
                           float* loss, int64_t rows, int64_t vocab, float scale, bool accumulate);

// dlogits = scale * (softmax(logits) - onehot(target)); f32 [rows, vocab]; may be logits.
void cross_entropy_backward(Stream& stream, const float* logits, const int32_t* targets,
                            const float* lse, float* dlogits, int64_t rows, int64_t vocab,
                            float scale);

}  // namespace hidup::kernels
