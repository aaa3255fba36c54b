// State that changes from step to step, in device memory, so that the same launches (and a captured
// CUDA graph) serve every step.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace hidup::kernels {

struct StepState {
  // The factor of an fp16 training's loss, so that small gradients do not vanish (Micikevicius et
  // al., "Mixed precision training", 2018, section 3.2). It adapts: half after a step whose
  // gradients overflow, twice after many good steps.
  static constexpr float kFirstScale = 65536.0F;
  static constexpr float kLeastScale = 0x1p-24F;  // below it no gradient is worth saving
  static constexpr float kMostScale = 0x1p60F;    // its product with a gradient fits f32
  static constexpr int64_t kGoodSteps = 2000;     // before it doubles

  // Values of this step, set by the host.
  uint64_t step = 0;  // 1 for the first step
  float learning_rate = 0.0F;

  // Values from all earlier steps, set by clip_scale(), so that no step waits for the host.
  float loss_scale = 1.0F;  // factor of the gradients
  uint64_t skipped = 0;     // steps in which the optimizer changed nothing
  int64_t good_steps = 0;   // since loss_scale last changed
  bool adapts = false;      // loss_scale adapts
  bool stops = false;       // stop at gradients that no smaller scale makes finite
  bool stopped = false;     // it has stopped

  // Returns true if a smaller scale can help against gradients that are not finite.
  HIDUP_HOST_DEVICE bool can_fall() const { return adapts && loss_scale > kLeastScale; }

  // Counts a step once its gradients are known to be finite or not.
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
