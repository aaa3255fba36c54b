// The state that clip_scale() leaves to the next step.
#include <limits>
#include <vector>

#include "kernel_test.h"
#include "kernels/norm.h"

namespace hidup::kernels::testing {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// The state after steps whose gradients have these squared norms, and the last scale of gradients.
struct Counted {
  StepState state;
  float scale = 0.0F;
};
Counted count(const StepState& start, const std::vector<float>& squares) {
  OnDevice<StepState> state(start);
  Output norm(1);
  Output scale(1);
  for (const float square : squares) {
    const OnDevice<float> squared(square);
    run([&](Stream& s) {
      clip_scale(s, squared.get(), 0.0F, norm.data(), scale.data(), state.get());
    });
  }
  return {*state, scale[0]};
}

StepState adapting() {
  return {.loss_scale = StepState::kFirstScale, .adapts = true};
}

TEST(StepState, HalvesTheScaleAfterAnOverflow) {
  const StepState state = count(adapting(), {kInfinite, kNan, 1.0F}).state;
  EXPECT_EQ(state.loss_scale, StepState::kFirstScale / 4.0F);
  EXPECT_EQ(state.skipped, 2U);
  EXPECT_EQ(state.good_steps, 1);
}

TEST(StepState, DoublesTheScaleAfterGoodSteps) {
  StepState state = adapting();
  state.good_steps = StepState::kGoodSteps - 2;
  state = count(state, {1.0F}).state;
  EXPECT_EQ(state.loss_scale, StepState::kFirstScale);
  state = count(state, {1.0F}).state;
  EXPECT_EQ(state.loss_scale, 2.0F * StepState::kFirstScale);
  EXPECT_EQ(state.good_steps, 0);
  EXPECT_EQ(state.skipped, 0U);
}

TEST(StepState, AnOverflowStartsTheCountAnew) {
  StepState state = adapting();
  state.good_steps = StepState::kGoodSteps - 1;
  state = count(state, {kInfinite, 1.0F}).state;
  EXPECT_EQ(state.loss_scale, StepState::kFirstScale / 2.0F);
  EXPECT_EQ(state.good_steps, 1);
}

TEST(StepState, KeepsTheScaleWithinItsLimits) {
  StepState state = adapting();
  state.loss_scale = StepState::kLeastScale;
  EXPECT_EQ(count(state, {kInfinite}).state.loss_scale, StepState::kLeastScale);
  state.loss_scale = StepState::kMostScale;
  state.good_steps = StepState::kGoodSteps - 1;
  EXPECT_EQ(count(state, {1.0F}).state.loss_scale, StepState::kMostScale);
}

TEST(StepState, TheScaleIsOneInOtherPrecisions) {
  const StepState state = count({}, {kInfinite, 1.0F}).state;
  EXPECT_EQ(state.loss_scale, 1.0F);
  EXPECT_EQ(state.skipped, 1U);
}

TEST(StepState, StopsWhereNoSmallerScaleHelps) {
  const Counted stopped = count({.stops = true}, {1.0F, kNan, 1.0F});
  EXPECT_TRUE(stopped.state.stopped);
  EXPECT_TRUE(std::isnan(stopped.scale));  // the optimizer changes nothing any more
  EXPECT_EQ(stopped.state.skipped, 1U);
  EXPECT_FALSE(count({}, {kNan}).state.stopped);

  StepState state = adapting();
  state.stops = true;
  EXPECT_FALSE(count(state, {kNan}).state.stopped);
  state.loss_scale = StepState::kLeastScale;
  EXPECT_TRUE(count(state, {kNan}).state.stopped);
}

}  // namespace
}  // namespace hidup::kernels::testing
