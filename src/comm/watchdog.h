// Notices a collective that failed or does not end: its ranks would wait for ever, and go on giving
// signs of life.
//
// A thread of every rank looks at its groups. What it finds it tells rank 0, which asks all ranks
// where they are, names the one that the others wait for, and brings all down. So there is one
// message, whoever notices first.
//
// A collective of a device that waits too long ends the run. One that blocks a thread of the host
// may rightly wait for long, as for a rank that reads a file: it ends the run only where no rank
// has moved for as long, and every rank waits for another or is in a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hidup {

class Heartbeat;

// Where a rank is among the collectives of a group.
struct CollectivePlace {
  bool waiting = false;  // it came to a collective that has not ended
  int64_t number = 0;    // of that one, or of the last that ended; the group's first is 1
  std::string name;      // "all_reduce of x along gpu"; empty where none ended yet
  int64_t order = 0;     // of the last that ended among those of all the rank's groups
  double seconds = 0.0;  // since it came, as far as was seen
  bool patient = false;  // a thread of the host waits
};

// A group whose collectives are to be watched. A watchdog's thread calls these.
class WatchedGroup {
 public:
  virtual ~WatchedGroup() = default;
  // Its ranks, by their numbers in the world.
  virtual const std::vector<int>& members() const = 0;
  virtual CollectivePlace place() = 0;
  // What failed beside the calls, as text for people; empty where nothing did.
  virtual std::string failure() = 0;
  // Frees this rank from what it waits for. May fail, and may hang.
  virtual void abort() = 0;
};

class Watchdog {
 public:
  // timeout_s: how long a collective may wait for its ranks. heartbeat: knows where this rank is in
  // a step; null: it is in none. All ranks construct one together.
  explicit Watchdog(double timeout_s, Heartbeat* heartbeat = nullptr);
  // Looks no more.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_timeout(double timeout_s);

  // The groups of this process, which every watchdog looks at. From any thread. After remove()
  // nobody calls the group.
  static void add(WatchedGroup& group);
  static void remove(WatchedGroup& group);

  // For a rank that lost its group while others wait for it: ends all ranks with exit code 5 and
  // this message, unless another message was first.
  [[noreturn]] void lose(const std::string& message);

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace hidup
