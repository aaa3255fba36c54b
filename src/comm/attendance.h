// Where this rank is among the collectives of a group that block its threads: for the watchdog.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "comm/patient_yield.h"
#include "comm/watchdog.h"

namespace hidup {

// One rank's, of a group. The watchdog looks at it as long as it lives.
class Attendance final : public WatchedGroup {
 public:
  // members: the group's ranks, by their numbers in the world.
  explicit Attendance(std::vector<int> members);
  ~Attendance() override;
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  // From where the rank comes to a collective to its end there: a patient wait. A group has one at
  // a time.
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

  // Rises with every collective that this process comes to or ends.
  static int64_t moves();

 private:
  const std::vector<int> members_;
  std::mutex mutex_;  // of what follows
  CollectivePlace place_;
  double came_ = 0.0;
};

}  // namespace hidup
