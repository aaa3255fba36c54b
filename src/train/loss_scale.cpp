#include "train/loss_scale.h"

#include <cmath>

namespace hidup {

bool LossScale::update(double gradient_norm) {
  if (!adapts_) {
    return false;
  }
  if (!std::isfinite(gradient_norm)) {
    constexpr float kLeast = 0x1p-24F;  // below that no gradient is worth saving
    value_ = value_ > kLeast ? value_ / 2.0F : value_;
    good_ = 0;
    ++skipped_;
    return true;
  }
  if (++good_ == kGoodSteps) {
    constexpr float kMost = 0x1p60F;  // times a gradient within what f32 has
    value_ = value_ < kMost ? value_ * 2.0F : value_;
    good_ = 0;
  }
  return false;
}

}  // namespace hidup
