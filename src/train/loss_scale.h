// The factor by which a training in fp16 multiplies its loss, so that small gradients do not vanish
// (Micikevicius et al., "Mixed precision training", 2018, section 3.2). It adapts: half after a
// step whose gradients overflow, in which the optimizer changes nothing, twice after many good
// ones.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace hidup {

class LossScale {
 public:
  static constexpr float kStart = 65536.0F;
  static constexpr int64_t kGoodSteps = 2000;  // until it is doubled

  // Of a training whose parameters have this type: 1 for ever unless it is f16.
  explicit LossScale(DType dtype, float start = kStart)
      : adapts_(dtype == DType::f16), value_(adapts_ ? start : 1.0F) {}

  float value() const { return value_; }
  int64_t skipped() const { return skipped_; }  // steps so far

  // After a step, with the norm of its gradients: whether the step was skipped.
  bool update(double gradient_norm);

 private:
  bool adapts_;
  float value_;
  int64_t good_ = 0;  // steps since the last change
  int64_t skipped_ = 0;
};

}  // namespace hidup
