#include "train/guard.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace hidup {
namespace {

// Adds steps of this length and returns the last trial that one of them ends.
std::optional<Trial> add(Guard& guard, int64_t first, int64_t last, double seconds,
                         double disturbance = 0.0) {
  std::optional<Trial> found;
  for (int64_t step = first; step <= last; ++step) {
    const auto times = static_cast<double>(step % 3 - 1);  // -1, 0, 1: their spread is 1.48
    if (const auto trial = guard.add(step, seconds + times * disturbance)) {
      found = trial;
    }
  }
  return found;
}

TEST(Guard, MayTryAfterTwentySteps) {
  Guard guard;
  add(guard, 1, 19, 1.0);
  EXPECT_FALSE(guard.may_try(19));
  add(guard, 20, 20, 1.0);
  EXPECT_TRUE(guard.may_try(20));
  guard.changed(20, true);
  EXPECT_FALSE(guard.may_try(20));
}

TEST(Guard, KeepsWhatIsFaster) {
  Guard guard;
  add(guard, 1, 30, 1.0);
  guard.changed(30, true);
  EXPECT_FALSE(add(guard, 31, 32, 9.0));  // the first steps set things up
  EXPECT_FALSE(add(guard, 33, 36, 0.7));
  const auto trial = add(guard, 37, 37, 0.7);
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->kept);
  EXPECT_EQ(trial->first, 31);
  EXPECT_EQ(trial->last, 37);
  EXPECT_EQ(trial->before_s, 1.0);
  EXPECT_EQ(trial->after_s, 0.7);
  EXPECT_FALSE(guard.may_try(37));  // too few steps are known
  add(guard, 38, 52, 0.7);
  EXPECT_TRUE(guard.may_try(52));
}

TEST(Guard, UndoesWhatIsSlowerByMoreThanOnePercentAndTwoSpreads) {
  struct Case {
    double after_s, disturbance;
    bool kept;
  };
  for (const Case& each : std::vector<Case>{{1.009, 0.0, true},
                                            {1.011, 0.0, false},
                                            {1.011, 0.01, true},
                                            {1.05, 0.01, false},
                                            {1.05, 0.02, true},
                                            {2.0, 0.1, false}}) {
    Guard guard;
    add(guard, 1, 40, 1.0, each.disturbance);
    guard.changed(40, true);
    const auto trial = add(guard, 41, 47, each.after_s);
    ASSERT_TRUE(trial);
    EXPECT_EQ(trial->kept, each.kept) << each.after_s << " " << each.disturbance;
  }
}

TEST(Guard, WaitsTenTimesAsLongAfterEveryFailure) {
  Guard guard;
  add(guard, 1, 20, 1.0);
  int64_t step = 20;
  for (const int64_t pause : {500, 5000}) {
    guard.changed(step, true);
    const auto trial = add(guard, step + 1, step + 7, 2.0);
    ASSERT_TRUE(trial && !trial->kept);
    step = trial->last;
    EXPECT_EQ(guard.waits_until(), step + pause);
    guard.changed(step, false);
    EXPECT_FALSE(add(guard, step + 1, step + pause - 1, 1.0));
    EXPECT_FALSE(guard.may_try(step + pause - 1));
    step += pause;
    add(guard, step, step, 1.0);
    EXPECT_TRUE(guard.may_try(step));
  }
}

// One slow step among five does not undo a change.
TEST(Guard, ComparesMedians) {
  Guard guard;
  add(guard, 1, 25, 1.0);
  add(guard, 26, 26, 30.0);
  guard.changed(26, true);
  add(guard, 27, 31, 0.9);
  add(guard, 32, 32, 50.0);
  const auto trial = add(guard, 33, 33, 0.9);
  ASSERT_TRUE(trial);
  EXPECT_TRUE(trial->kept);
  EXPECT_EQ(trial->after_s, 0.9);
}

}  // namespace
}  // namespace hidup
