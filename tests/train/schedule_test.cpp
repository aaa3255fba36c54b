#include "train/schedule.h"

#include <gtest/gtest.h>

#include "deck/train_deck.h"

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

TEST(LearningRate, SaysWhenAChangeRaisesIt) {
  const std::string raises = "the changed schedule raises the learning rate: step ";
  TrainDeck more = deck("cosine");
  more.steps = 210;
  EXPECT_EQ(describe_raise(deck("cosine"), more, 110),
            raises + "111 takes 1.086, and step 110 took 0.2");
  EXPECT_EQ(describe_raise(deck("cosine"), more, 59),
            raises + "60 takes 1.736, and would have taken 1.1 before");
  EXPECT_EQ(describe_raise(deck("cosine"), deck("constant"), 59),
            raises + "60 takes 2, and would have taken 1.1 before");
  EXPECT_EQ(describe_raise(deck("cosine"), deck("cosine"), 59), "");
  EXPECT_EQ(describe_raise(deck("cosine"), deck("cosine"), 5), "") << "within the warm-up";
  EXPECT_EQ(describe_raise(more, deck("cosine"), 59), "") << "it falls faster";
  more = deck("constant");
  more.steps = 1000;
  EXPECT_EQ(describe_raise(deck("constant"), more, 110), "") << "it stays";
  more.lr = 3.0;
  EXPECT_EQ(describe_raise(deck("constant"), more, 110),
            raises + "111 takes 3, and step 110 took 2");
}

}  // namespace
}  // namespace hidup
