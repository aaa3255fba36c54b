// Cross entropy of the softmax of logits with one target class per row, and the accuracy: a row is
// right if no logit is larger than the target's. A row with a negative target has none: it adds
// nothing to the loss and the accuracy, and its gradient is 0. `scale` counts all rows as if they
// had a target. Rows of logits and dlogits are `stride` elements apart, or dense if that is 0; the
// gap between rows is neither read nor written.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

// lse[r] = log(sum over v of exp(logits[r,v]));
// loss[0] (+)= scale * sum over r of (lse[r] - logits[r, targets[r]]), summed in double,
// over the rows with a target; loss[1] (+)= scale * the number of right rows.
template <typename Element>
struct CrossEntropyForward {
  const Element* logits;   // [rows, vocab]
  const int32_t* targets;  // i32 [rows], each below vocab
  float* lse;              // f32 [rows]
  float* loss;             // f32 [2]
  int64_t rows;
  int64_t vocab;
  float scale;
  bool accumulate;
  int64_t stride = 0;
};
template <typename Element>
void cross_entropy_forward(Stream& stream, const CrossEntropyForward<Element>& args);

// Statistics of a rank that has only the classes first .. first + columns - 1:
// stats[r, 0] = log(sum over those v of exp(logits[r, v])), -infinity if there are none;
// stats[r, 1] = their largest logit, likewise;
// stats[r, 2] = logits[r, targets[r]], 0 if another rank has that class.
template <typename Element>
struct CrossEntropyStats {
  const Element* logits;   // [rows, columns]
  const int32_t* targets;  // i32 [rows]
  float* stats;            // f32 [rows, 3]
  int64_t rows;
  int64_t columns;
  int64_t first;
  int64_t stride = 0;
};
template <typename Element>
void cross_entropy_stats(Stream& stream, const CrossEntropyStats<Element>& args);

// lse and loss of CrossEntropyForward, from the stats of all parts of the classes.
struct CrossEntropyMerge {
  const float* stats;      // f32 [parts, rows, 3]
  const int32_t* targets;  // i32 [rows]
  float* lse;              // f32 [rows]
  float* loss;             // f32 [2]
  int64_t parts;
  int64_t rows;
  float scale;
  bool accumulate;
};
void cross_entropy_merge(Stream& stream, const CrossEntropyMerge& args);

// dlogits = scale * state->loss_scale * (exp(logits - lse) - onehot(target)), for the classes first
// .. first + columns - 1; 0 in rows without a target. `state` is read when the work runs.
template <typename Element>
struct CrossEntropyBackward {
  const Element* logits;   // [rows, columns]
  const int32_t* targets;  // i32 [rows]
  const float* lse;        // f32 [rows]
  Element* dlogits;        // [rows, columns]; may be logits
  int64_t rows;
  int64_t columns;
  int64_t first;
  float scale;
  const StepState* state;
  int64_t stride = 0;
};
template <typename Element>
void cross_entropy_backward(Stream& stream, const CrossEntropyBackward<Element>& args);

}  // namespace hidup::kernels
