// Tells the watchdog where this rank is among the blocking host collectives of a group.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "comm/patient_yield.h"
#include "comm/watchdog.h"

namespace hidup {

// This rank's place in one group. The watchdog looks at it as long as it lives.
class Attendance final : public WatchedGroup {
 public:
  // members: the group's ranks, by their numbers in the world.
  explicit Attendance(std::vector<int> members);
  ~Attendance() override;
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  // Lives from the rank's arrival at a collective to the collective's end there, and makes the
  // thread wait patiently. A group has one visit at a time.
  class Visit {
   public:
    // doing: "all_reduce of x".
    Visit(Attendance& attendance, const std::string& doing);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    Attendance& attendance_;
    const PatientWait wait_;
  };

  const std::vector<int>& members() const override { return members_; }
  CollectivePlace place() override;
  std::string failure() override { return ""; }
  void abort() override {}

  // Returns a counter that grows with every collective that this process comes to or ends.
  static int64_t moves();

 private:
  const std::vector<int> members_;
  std::mutex mutex_;  // guards the members below
  CollectivePlace place_;
  double came_ = 0.0;
};

}  // namespace hidup
