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

namespace hidup {

// Where a rank is; sent with every sign of life.
struct Progress {
  int64_t step = 0;          // 0: before the first
  int64_t instruction = -1;  // of the program; -1: outside
};

class Heartbeat {
 public:
  // timeout_s: silence after which the neighbour counts as lost. `here` is called
  // from the heartbeat's thread; `describe` turns a neighbour's progress into words.
  // All ranks construct one together. With one rank nothing happens.
  Heartbeat(double timeout_s, std::function<Progress()> here,
            std::function<std::string(const Progress&)> describe);
  // All ranks destroy theirs together; says good-bye first.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  class Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace hidup
