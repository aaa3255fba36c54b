// The factor by which a training in fp16 multiplies its loss, so that small gradients do not vanish
// (Micikevicius et al., "Mixed precision training", 2018, section 3.2). It adapts: half after a
// step whose gradients overflow, twice after many good ones. And the number of steps, in any
// precision, in which the optimizer changed nothing, because their gradients were not finite.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace hidup {

class LossScale {
 public:
  static constexpr float kStart = 65536.0F;
  static constexpr int64_t kGoodSteps = 2000;  // until it is doubled
  static constexpr float kLeast = 0x1p-24F;    // below that no gradient is worth saving

  // Of a training whose parameters have this type: 1 for ever unless it is f16.
  explicit LossScale(DType dtype, float start = kStart)
      : adapts_(dtype == DType::f16), value_(adapts_ ? start : 1.0F) {}

  // What a checkpoint keeps of it.
  struct State {
    float value = 0.0F;      // 0: of a run in another precision, which says nothing here
    int64_t good_steps = 0;  // since the last change
    int64_t skipped = 0;     // steps so far
  };
  State state() const { return {value_, good_, skipped_}; }
  void restore(const State& state);

  float value() const { return value_; }
  int64_t skipped() const { return skipped_; }
  // Whether a smaller factor can help against gradients that are not finite.
  bool can_fall() const { return adapts_ && value_ > kLeast; }

  // After a step, with the norm of its gradients: whether the step was skipped.
  bool update(double gradient_norm);

 private:
  bool adapts_;
  float value_;
  int64_t good_ = 0;  // steps since the last change
  int64_t skipped_ = 0;
};

}  // namespace hidup
