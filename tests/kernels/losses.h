// Cross entropy: all its kernels, with shared operands.
#pragma once

#include "kernel_test.h"
#include "kernels/cross_entropy.h"

namespace hidup::kernels::testing {

// Returns the state of a step with an unscaled loss.
inline const StepState* unscaled() {
  static const auto* const state = new OnDevice<StepState>({.loss_scale = 1.0F});
  return state->get();
}

template <typename Element>
struct CrossEntropy {
  int64_t rows;
  int64_t columns;
  const Element* logits;
  const int32_t* targets;
  float scale = 1.0F;
  float* lse = nullptr;
  float* loss = nullptr;
  Element* dlogits = nullptr;
  float* statistics = nullptr;
  int64_t first = 0;
  const StepState* state = unscaled();
  int64_t stride = 0;

  void forward(Stream& stream, bool accumulate = false) const {
    cross_entropy_forward<Element>(
        stream, {logits, targets, lse, loss, rows, columns, scale, accumulate, stride});
  }
  void stats(Stream& stream) const {
    cross_entropy_stats<Element>(stream,
                                 {logits, targets, statistics, rows, columns, first, stride});
  }
  void backward(Stream& stream) const {
    cross_entropy_backward<Element>(
        stream, {logits, targets, lse, dlogits, rows, columns, first, scale, state, stride});
  }
  // Does the same over the logits, which become their gradient.
  void backward_in_place(Stream& stream, Element* values) const {
    CrossEntropy there = *this;
    there.logits = values;
    there.dlogits = values;
    there.backward(stream);
  }
};

}  // namespace hidup::kernels::testing
