// What changes from step to step, in device memory, so that the same launches
// (and a captured CUDA graph) serve every step.
#pragma once

#include <cstdint>

namespace hidup::kernels {

struct StepState {
  uint64_t step = 0;           // 1 for the first step
  float learning_rate = 0.0F;  // of this step
  float loss_scale = 1.0F;     // gradients are of the loss times this
  uint64_t skipped = 0;        // steps so far in which the optimizer changed nothing
};

}  // namespace hidup::kernels
