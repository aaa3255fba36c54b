// Deadlines: points in time at which work that only improves a result stops.
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
  Deadline() = default;  // never passes
  static Deadline in(double seconds) {
    Deadline deadline;
    deadline.at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
    return deadline;
  }
  // Returns a deadline for tests that passes after `left` checks, whatever the clock says. Each
  // check decrements `left`, also below 0.
  static Deadline after_questions(std::atomic<int64_t>& left) {
    Deadline deadline;
    deadline.questions_ = &left;
    return deadline;
  }

  // Returns true once this deadline or the thread's TimeLimit has passed.
  bool has_passed() const;
  // Returns infinity where the deadline has no point in time.
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

// Ends the work of this thread at a deadline, while the object exists. Work that has no partial
// result calls check() deep inside, so functions need no parameter for the limit.
class TimeLimit {
 public:
  class IsOver {};  // thrown by check(), caught by in_time()

  explicit TimeLimit(const Deadline& deadline) : around_(std::exchange(current_, &deadline)) {}
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit() { current_ = around_; }

  // Returns this thread's limit, for threads that it starts; a deadline that never passes without
  // one.
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
  // Returns the number of calls of check() by this thread, a measure of its work.
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

// Does the work. Returns false where the time limit ended it.
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
