#include "train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "deck/train_deck.h"

namespace hidup {

double learning_rate(const TrainDeck& train, int64_t step) {
  if (step <= train.warmup_steps) {
    return train.lr * static_cast<double>(step) / static_cast<double>(train.warmup_steps);
  }
  if (train.schedule == "constant") {
    return train.lr;
  }
  const auto done = static_cast<double>(step - train.warmup_steps);
  const auto all = static_cast<double>(train.steps - train.warmup_steps);
  const double left = train.schedule == "linear"
                          ? 1.0 - done / all
                          : 0.5 * (1.0 + std::cos(std::numbers::pi * done / all));
  return train.lr * (train.min_lr_ratio + (1.0 - train.min_lr_ratio) * left);
}

std::string describe_raise(const TrainDeck& before, const TrainDeck& now, int64_t done) {
  constexpr double kRaise = 1.01;  // the least raise to report
  const int64_t next = std::min(done + 1, before.steps);
  const double then = learning_rate(before, next);
  const double rate = learning_rate(now, done + 1);
  if (rate < kRaise * then) {
    return "";
  }
  return fmt::format("the changed schedule raises the learning rate: step {} takes {:.4g}, {}",
                     done + 1, rate,
                     next > done ? fmt::format("and would have taken {:.4g} before", then)
                                 : fmt::format("and step {} took {:.4g}", next, then));
}

}  // namespace hidup
