// What changes from step to step, in device memory, so that the same launches
// (and a captured CUDA graph) serve every step.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace hidup::kernels {

struct StepState {
  // The factor by which a training in fp16 multiplies its loss, so that small gradients do not
  // vanish (Micikevicius et al., "Mixed precision training", 2018, section 3.2). It adapts: half
  // after a step whose gradients overflow, twice after many good ones.
  static constexpr float kFirstScale = 65536.0F;
  static constexpr float kLeastScale = 0x1p-24F;  // below that no gradient is worth saving
  static constexpr float kMostScale = 0x1p60F;    // times a gradient within what f32 has
  static constexpr int64_t kGoodSteps = 2000;     // until it is doubled

  // Of this step, by the host.
  uint64_t step = 0;  // 1 for the first step
  float learning_rate = 0.0F;

  // Of all steps before it, by clip_scale(), so that no step waits for the host.
  float loss_scale = 1.0F;  // gradients are of the loss times this
  uint64_t skipped = 0;     // steps in which the optimizer changed nothing
  int64_t good_steps = 0;   // since loss_scale last changed
  bool adapts = false;      // loss_scale
  bool stops = false;       // the optimizer, at gradients that no smaller scale makes finite
  bool stopped = false;     // it did

  // Whether a smaller scale can help against gradients that are not finite.
  HIDUP_HOST_DEVICE bool can_fall() const { return adapts && loss_scale > kLeastScale; }

  // After the step's gradients are known: whether they are finite.
  HIDUP_HOST_DEVICE void count(bool finite) {
    if (stopped) {
      return;
    }
    if (!finite) {
      stopped = stops && !can_fall();
      loss_scale = can_fall() ? loss_scale / 2.0F : loss_scale;
      good_steps = 0;
      ++skipped;
    } else if (adapts && ++good_steps == kGoodSteps) {
      loss_scale = loss_scale < kMostScale ? loss_scale * 2.0F : loss_scale;
      good_steps = 0;
    }
  }
};

}  // namespace hidup::kernels
