// Notices a rank that stopped, for which MPI itself would wait for ever.
//
// A thread of every rank sends signs of life to the left neighbour (rank - 1, in a ring) and
// listens to the right one. So exactly one rank notices a lost rank, names it and aborts all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace hidup {

// The place of a rank in the program, sent with every sign of life.
struct Progress {
  int64_t step = 0;          // 0: before the first step
  int64_t instruction = -1;  // index in the program; -1: outside of it

  bool operator==(const Progress&) const = default;
};

class Heartbeat {
 public:
  // timeout_s: seconds of silence after which the neighbour counts as lost. The constructor waits
  // for no rank, so it can run right after MPI's start. With one rank nothing happens. No other
  // messages use MPI_COMM_WORLD itself.
  explicit Heartbeat(double timeout_s);
  // Stops at once. Without leave() the left neighbour takes this rank for lost.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void set_timeout(double timeout_s);

  // Says good-bye, and waits for the neighbour's good-bye. All ranks leave together, once.
  void leave();

  // Returns the place of this rank, also in words; the words are empty without a guide.
  std::pair<Progress, std::string> here();

  // Makes signs of life tell the rank's place while it lives.
  class Guide {
   public:
    // The heartbeat's thread calls `here`. `describe` turns a neighbour's progress into words.
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
