// Notices a collective that failed or does not end: its ranks still send signs of life.
//
// A thread of every rank watches the rank's groups and reports findings to rank 0. Rank 0 asks all
// ranks for their places, names the rank that the others wait for, and aborts all. So one message
// appears, whichever rank notices first.
//
// A device collective that waits too long ends the run. A collective that blocks a host thread may
// rightly wait for long, as for a rank that reads a file. It ends the run only where no rank has
// moved for as long, and every rank waits for another or is in a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hidup {

class Heartbeat;

// The place of a rank among the collectives of a group.
struct CollectivePlace {
  bool waiting = false;  // it came to a collective that has not ended
  int64_t number = 0;    // of the waiting collective or the last that ended; from 1
  std::string name;      // "all_reduce of x along gpu"; empty before the first
  int64_t order = 0;     // of the last that ended, among those of all the rank's groups
  double seconds = 0.0;  // since it came, as far as observed
  bool patient = false;  // a host thread waits
};

// A group whose collectives are watched. A watchdog's thread calls these functions.
class WatchedGroup {
 public:
  virtual ~WatchedGroup() = default;
  // Returns its ranks, by their numbers in the world.
  virtual const std::vector<int>& members() const = 0;
  virtual CollectivePlace place() = 0;
  // Returns the text of a failure outside the calls, for people; empty where there is none.
  virtual std::string failure() = 0;
  // Frees this rank from its wait. May fail, and may hang.
  virtual void abort() = 0;
};

class Watchdog {
 public:
  // timeout_s: seconds that a collective may wait for its ranks. heartbeat: knows this rank's place
  // in a step; null: it is in no step. All ranks construct one together.
  explicit Watchdog(double timeout_s, Heartbeat* heartbeat = nullptr);
  // Stops watching.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_timeout(double timeout_s);

  // Add and remove groups of this process, which every watchdog looks at. Any thread may call them.
  // After remove() no watchdog calls the group.
  static void add(WatchedGroup& group);
  static void remove(WatchedGroup& group);

  // Ends all ranks with exit code 5 and this message, unless another message was first. For a rank
  // that lost its group while others wait for it.
  [[noreturn]] void lose(const std::string& message);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace hidup
