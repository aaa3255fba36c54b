// The objective's time of one pass (forward or backward), and how it grows with every operation, in
// numbers by which plans that are not complete can be compared.
#pragma once

#include <algorithm>

#include "search/problem/problem.h"

namespace hidup {

// How microbatches take turns in a pass.
struct Turns {
  Turns(const Problem& problem, bool is_forward)
      : count(problem.microbatches - 1),
        hiding(is_forward ? 0.0 : count),
        interference(problem.interference) {}
  double count;   // turns in which one microbatch computes while another communicates
  double hiding;  // the part of these turns whose computation hides messages of the step
  double interference;
};

// The time so far is the time of the pass if it ended here. Each of the four numbers (seconds) can
// only shorten what comes: a second of it saves at most a second, less the interference;
// advantage() has the exact bound.
struct Pass {
  double open_compute = 0.0;  // of the open stage: the next communication hides behind it
  double open_comm = 0.0;     // of the open stage: further computation hides it
  // Idle time of the communication stream beside one microbatch, beyond open_compute; may be
  // negative.
  double spare = 0.0;
  double turns_idle = 0.0;  // the same beside the other microbatches: only messages hide there

  // Idle time of the communication stream that is not used yet.
  double idle() const { return spare + open_compute; }
  // Whether a message of that length is hidden.
  bool hides(double seconds) const { return seconds <= turns_idle + idle(); }
  // Whether messages leave room for what communication of that length claims of open_compute.
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
