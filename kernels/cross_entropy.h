// Cross entropy of the softmax of logits with one right class per row.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

// lse[r] = log(sum over v of exp(logits[r,v]));
// loss (+)= scale * sum over r of (lse[r] - logits[r, targets[r]]), summed in double.
// logits: [rows, vocab]; targets: i32 [rows], each in 0 .. vocab-1; lse: f32 [rows];
// loss: f32 [1].
template <typename Element>
void cross_entropy_forward(Stream& stream, const Element* logits, const int32_t* targets,
                           float* lse, float* loss, int64_t rows, int64_t vocab, float scale,
                           bool accumulate);

// The same where a rank has the classes first .. first + columns - 1 only:
// stats[r, 0] = log(sum over those v of exp(logits[r, v])), -infinity if there are none;
// stats[r, 1] = logits[r, targets[r]], 0 where that class is not here.
// logits: [rows, columns]; stats: f32 [rows, 2].
template <typename Element>
void cross_entropy_stats(Stream& stream, const Element* logits, const int32_t* targets,
                         float* stats, int64_t rows, int64_t columns, int64_t first);

// lse and loss as above, from the stats of all parts of the classes, f32 [parts, rows, 2].
void cross_entropy_merge(Stream& stream, const float* stats, float* lse, float* loss, int64_t parts,
                         int64_t rows, float scale, bool accumulate);

// dlogits = scale * state->loss_scale * (exp(logits - lse) - onehot(target)), of the classes first
// .. first + columns - 1; [rows, columns]; may be logits. `state` is read when the work runs.
template <typename Element>
void cross_entropy_backward(Stream& stream, const Element* logits, const int32_t* targets,
                            const float* lse, Element* dlogits, int64_t rows, int64_t columns,
                            int64_t first, float scale, const StepState* state);

}  // namespace hidup::kernels
