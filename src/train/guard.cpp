#include "train/guard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/median.h"

namespace hidup {

std::optional<Trial> Guard::add(int64_t step, double seconds) {
  if (step <= skipped_until_) {
    return std::nullopt;
  }
  if (!first_) {
    before_.push_back(seconds);
    if (before_.size() > kBefore) {
      before_.pop_front();
    }
    return std::nullopt;
  }
  after_.push_back(seconds);
  if (after_.size() < kAfter) {
    return std::nullopt;
  }
  const std::vector<double> before(before_.begin(), before_.end());
  Trial trial{.first = *first_,
              .last = step,
              .before_s = median(before),
              .after_s = median(after_),
              .spread_s = spread(before)};
  const double longer_s = trial.after_s - trial.before_s;
  trial.kept = longer_s <= kMargin * trial.before_s || longer_s <= kSpreads * trial.spread_s;
  first_.reset();
  if (trial.kept) {
    before_.assign(after_.begin(), after_.end());
  } else {
    wait(step);
  }
  return trial;
}

void Guard::wait(int64_t step) {
  pause_ *= kLonger;
  waits_until_ = step + pause_;
}

bool Guard::may_try(int64_t step) const {
  return !first_ && before_.size() >= kBefore && step >= waits_until_;
}

void Guard::changed(int64_t step, bool trial) {
  check(!first_, "a change during the trial of another");
  skipped_until_ = step + kFirst;
  after_.clear();
  if (trial) {
    first_ = step + 1;
  }
}

}  // namespace hidup
