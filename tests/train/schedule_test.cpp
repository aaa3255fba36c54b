#include "train/schedule.h"

#include <gtest/gtest.h>

namespace hidup {
namespace {

TrainDeck deck(const std::string& schedule) {
  return {.steps = 110, .lr = 2.0, .schedule = schedule, .warmup_steps = 10, .min_lr_ratio = 0.1};
}

TEST(LearningRate, WarmsUpLinearly) {
  for (const char* schedule : {"constant", "linear", "cosine"}) {
    EXPECT_DOUBLE_EQ(learning_rate(deck(schedule), 1), 0.2);
    EXPECT_DOUBLE_EQ(learning_rate(deck(schedule), 10), 2.0);
  }
}

TEST(LearningRate, FollowsItsScheduleToTheLastStep) {
  EXPECT_DOUBLE_EQ(learning_rate(deck("constant"), 110), 2.0);
  EXPECT_DOUBLE_EQ(learning_rate(deck("linear"), 60), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(deck("linear"), 110), 0.2);
  EXPECT_NEAR(learning_rate(deck("cosine"), 35), 2.0 * (0.1 + 0.9 * 0.8535533905932737), 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(deck("cosine"), 60), 2.0 * 0.55);
  EXPECT_DOUBLE_EQ(learning_rate(deck("cosine"), 110), 0.2);
}

TEST(LearningRate, NeedsNoWarmUp) {
  TrainDeck train = deck("cosine");
  train.warmup_steps = 0;
  EXPECT_LT(learning_rate(train, 1), 2.0);
  EXPECT_GT(learning_rate(train, 1), 1.99);
}

}  // namespace
}  // namespace hidup
