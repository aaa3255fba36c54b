#include "train/schedule.h"

#include <cmath>
#include <numbers>

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

}  // namespace hidup
