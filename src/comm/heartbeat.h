// Notices a rank that stopped: MPI itself waits for it for ever.
//
// Every rank sends a sign of life to its left neighbour (rank - 1, in a ring)
// and listens to its right one, from a thread of its own. So a lost rank is
// noticed by exactly one other, which names it and brings all ranks down.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace hidup {

// Where a rank is; sent with every sign of life.
struct Progress {
  int64_t step = 0;          // 0: before the first
  int64_t instruction = -1;  // of the program; -1: outside

  bool operator==(const Progress&) const = default;
};

class Heartbeat {
 public:
  // timeout_s: silence after which the neighbour counts as lost. Waits for no rank, so that it can
  // start as soon as MPI has. With one rank nothing happens. Its messages are the only ones on
  // MPI_COMM_WORLD itself.
  explicit Heartbeat(double timeout_s);
  // Stops at once: the left neighbour takes this rank for lost, unless it left.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void set_timeout(double timeout_s);

  // Says good-bye, and waits for the neighbour's. All ranks leave together, once.
  void leave();

  // Where this rank is, and that in words; empty without a guide.
  std::pair<Progress, std::string> here();

  // While it lives, signs of life say where the rank is.
  class Guide {
   public:
    // `here` is called from the heartbeat's thread; `describe` turns a neighbour's progress into
    // words.
    Guide(Heartbeat& heartbeat, std::function<Progress()> here,
          std::function<std::string(const Progress&)> describe);
    ~Guide();
    Guide(const Guide&) = delete;
    Guide& operator=(const Guide&) = delete;

   private:
    Heartbeat& heartbeat_;
  };

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace hidup
