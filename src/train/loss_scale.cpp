#include "train/loss_scale.h"

#include <cmath>

namespace hidup {

void LossScale::restore(const State& state) {
  skipped_ = state.skipped;
  if (adapts_ && state.value > 0.0F) {
    value_ = state.value;
    good_ = state.good_steps;
  }
}

bool LossScale::update(double gradient_norm) {
  if (!std::isfinite(gradient_norm)) {
    value_ = can_fall() ? value_ / 2.0F : value_;
    good_ = 0;
    ++skipped_;
    return true;
  }
  if (adapts_ && ++good_ == kGoodSteps) {
    constexpr float kMost = 0x1p60F;  // times a gradient within what f32 has
    value_ = value_ < kMost ? value_ * 2.0F : value_;
    good_ = 0;
  }
  return false;
}

}  // namespace hidup
