// Adapts without harm: a change in mid-run is tried, measured, and undone where it does not pay.
//
// The guard knows steps and seconds only, so every kind of change can use it. It compares the
// median of the first steps with the change to the median of the last ones before. After a failure
// nothing is tried for a time that grows tenfold with every failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace hidup {

// A change, and what it did to the steps.
struct Trial {
  int64_t first = 0;      // first step with the change
  int64_t last = 0;       // last step that was measured
  double before_s = 0.0;  // median of the steps before the change
  double after_s = 0.0;   // median of the measured steps with it
  double spread_s = 0.0;  // of the steps before the change
  bool kept = false;
};

class Guard {
 public:
  // The limits that tests and documents rely on.
  static constexpr size_t kBefore = 20;       // steps before a change that count
  static constexpr size_t kAfter = 5;         // steps with the change that count
  static constexpr int64_t kFirst = 2;        // steps before those, which set things up
  static constexpr double kMargin = 0.01;     // a longer step by this part of it is not noise
  static constexpr double kSpreads = 2.0;     // nor is one by this many spreads
  static constexpr int64_t kFirstPause = 50;  // steps; tenfold after every failure
  static constexpr int64_t kLonger = 10;

  // Adds the seconds of the next step. Returns the trial that this step ends.
  std::optional<Trial> add(int64_t step, double seconds);

  // Returns true if a change may start after this step: enough steps are known, no trial runs, and
  // the last failure is long enough ago.
  bool may_try(int64_t step) const;
  // The next change is not tried up to this step.
  int64_t waits_until() const { return waits_until_; }
  // Waits as after a failure, because the last change did not pay for long.
  void wait(int64_t step);
  // A change holds from the next step on. With `trial` it is on trial, else it undoes one.
  void changed(int64_t step, bool trial);

 private:
  std::deque<double> before_;     // steps without a trial
  std::vector<double> after_;     // steps of the trial
  std::optional<int64_t> first_;  // first step of the trial
  int64_t skipped_until_ = 0;     // steps up to this one do not count
  int64_t pause_ = kFirstPause;
  int64_t waits_until_ = 0;
};

}  // namespace hidup
