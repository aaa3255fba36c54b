// A point in time after which work that only makes a result better stops.
#pragma once

#include <chrono>
#include <optional>

namespace hidup {

class Deadline {
 public:
  Deadline() = default;  // never
  static Deadline in(double seconds) {
    Deadline deadline;
    deadline.at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
    return deadline;
  }
  bool has_passed() const { return at_ && Clock::now() >= *at_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> at_;
};

}  // namespace hidup
