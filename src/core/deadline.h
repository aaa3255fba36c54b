// A point in time after which work that only makes a result better stops.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

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
  // For tests: it has passed once it was asked `left` times, whatever the clock says. Counts down,
  // below 0 then.
  static Deadline after_questions(std::atomic<int64_t>& left) {
    Deadline deadline;
    deadline.questions_ = &left;
    return deadline;
  }

  // This one, or that of the work around (TimeLimit).
  bool has_passed() const;
  // Infinite where it is no point in time.
  double seconds_left() const {
    return at_ ? std::chrono::duration<double>(*at_ - Clock::now()).count()
               : std::numeric_limits<double>::infinity();
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_over() const {
    return (at_ && Clock::now() >= *at_) ||
           (questions_ && questions_->fetch_sub(1, std::memory_order_relaxed) <= 0);
  }

  std::optional<Clock::time_point> at_;
  std::atomic<int64_t>* questions_ = nullptr;
};

// Ends what this thread does meanwhile, at a deadline: work that has no result before its end calls
// check(), deep inside. So it need not be told of a limit.
class TimeLimit {
 public:
  class IsOver {};  // thrown by check(), caught by in_time()

  explicit TimeLimit(const Deadline& deadline) : around_(std::exchange(current_, &deadline)) {}
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit() { current_ = around_; }

  // Of this thread, for those that it starts; never where there is none.
  static const Deadline& current() {
    static const Deadline never;
    return current_ != nullptr ? *current_ : never;
  }
  static void check() {
    ++checks_;
    if (current_ != nullptr && current_->has_passed()) {
      throw IsOver();
    }
  }
  // Calls of check() by this thread: how much work it did.
  static int64_t checks() { return checks_; }

 private:
  static inline thread_local const Deadline* current_ = nullptr;
  static inline thread_local int64_t checks_ = 0;
  const Deadline* around_;
};

inline bool Deadline::has_passed() const {
  const Deadline& limit = TimeLimit::current();
  return is_over() || (&limit != this && limit.is_over());
}

// Does the work; false where the time limit ended it.
template <typename Work>
bool in_time(const Work& work) {
  try {
    work();
  } catch (const TimeLimit::IsOver&) {
    return false;
  }
  return true;
}

}  // namespace hidup
