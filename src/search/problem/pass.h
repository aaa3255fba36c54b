// The objective's time of a pass (forward or backward), built up operation by operation from
// numbers by which incomplete plans can be compared.
#pragma once

#include <algorithm>

#include "search/problem/problem.h"

namespace hidup {

// The turns of microbatches in a pass.
struct Turns {
  Turns(const Problem& problem, bool is_forward)
      : count(problem.microbatches - 1),
        hiding(is_forward ? 0.0 : count),
        interference(problem.interference) {}
  double count;   // turns in which one microbatch computes while another communicates
  double hiding;  // turns whose computation hides messages of the step
  double interference;
};

// The state of a pass. The time so far is that of a pass that ends here. A second of each number
// saves at most a second later, less the interference; advantage() has the exact bound.
struct Pass {
  double open_compute = 0.0;  // of the open stage; hides the next communication
  double open_comm = 0.0;     // of the open stage; further computation hides it
  // Idle communication time beside one microbatch, beyond open_compute. May be negative.
  double spare = 0.0;
  double turns_idle = 0.0;  // idle time beside the other microbatches, for messages only

  // Returns the unused idle time of the communication stream.
  double idle() const { return spare + open_compute; }
  // Returns true where a message of `seconds` is hidden.
  bool hides(double seconds) const { return seconds <= turns_idle + idle(); }
  // Returns true where messages leave room for the part of open_compute that communication claims.
  bool keeps_up_with(double seconds) const { return std::min(open_compute, seconds) <= idle(); }

  // Each returns the seconds that it adds to the pass.
  double communicate(double seconds, const Turns& turns) {
    if (seconds <= 0.0) {
      return 0.0;
    }
    turns_idle = 0.0;
    if (turns.count == 0.0) {
      spare = 0.0;
      return seconds;
    }
    const double claimed = std::min(open_compute, seconds);
    const double missing = std::max(0.0, claimed - idle());
    spare = std::max(0.0, std::min(idle(), open_compute) - seconds);
    open_compute = 0.0;
    open_comm = seconds;
    return seconds - claimed + turns.interference * claimed + turns.count * seconds +
           (1.0 - turns.interference) * missing;
  }
  double compute(double seconds, const Turns& turns) {
    if (turns.count == 0.0) {
      spare += seconds;
      return seconds;
    }
    const double hidden = std::min(seconds, open_comm);
    open_compute += seconds;
    open_comm -= hidden;
    turns_idle += turns.hiding * (seconds - hidden);
    return seconds + turns.count * (seconds - hidden + turns.interference * hidden);
  }
  double message(double seconds, const Turns& turns) {
    const double in_turns = std::min(seconds, turns_idle);
    const double hidden = std::min(seconds, turns_idle + idle());
    turns_idle -= in_turns;
    spare -= hidden - in_turns;
    return seconds - hidden + turns.interference * hidden;
  }
};

}  // namespace hidup
