// One pass of a plan that is not complete: how evaluate()'s time of the pass grows with every
// operation, in numbers that compare with those of other plans.
#pragma once

#include <algorithm>

#include "search/problem.h"

namespace hidup {

// How microbatches take turns in a pass.
struct Turns {
  Turns(const Problem& problem, bool is_forward)
      : count(problem.microbatches - 1),
        hiding(is_forward ? 0.0 : count),
        interference(problem.interference) {}
  double count;   // of the turns in which one microbatch computes while another communicates
  double hiding;  // of them: those whose computation hides messages of the step
  double interference;
};

// The time so far is that of the pass if it ended here. What a lane has in each of its numbers can
// only shorten what comes, and by no more than advantage() says: a second of it is worth a second
// at most, less the interference.
struct Lane {
  double open = 0.0;   // computation of the open stage: the next communication hides behind it
  double room = 0.0;   // communication of the open stage that further computation hides
  double spare = 0.0;  // idle time of the communication stream, beyond `open`; may be negative

  double idle() const { return spare + open; }  // of the communication stream, and not yet used
  // Whether so long a message is hidden.
  bool hides(double seconds) const { return seconds <= idle(); }

  // Each returns the seconds that it adds.
  double communicate(double seconds, const Turns& turns) {
    if (seconds <= 0.0) {
      return 0.0;
    }
    if (turns.count == 0.0) {
      spare = 0.0;
      return seconds;
    }
    const double claimed = std::min(open, seconds);
    const double missing = std::max(0.0, claimed - idle());
    spare = std::max(0.0, std::min(idle(), open) - seconds);
    open = 0.0;
    room = seconds;
    return seconds - claimed + turns.interference * claimed + turns.count * seconds +
           (1.0 - turns.interference) * missing;
  }
  double compute(double seconds, const Turns& turns) {
    if (turns.count == 0.0) {
      spare += seconds;
      return seconds;
    }
    const double hidden = std::min(seconds, room);
    open += seconds;
    room -= hidden;
    spare += turns.hiding * (seconds - hidden);
    return seconds + turns.count * (seconds - hidden + turns.interference * hidden);
  }
  double message(double seconds, const Turns& turns) {
    const double hidden = std::min(seconds, idle());
    spare -= hidden;
    return seconds - hidden + turns.interference * hidden;
  }
};

// What the operations to come can make use of.
struct LaneNeeds {
  double largest_comm = 0.0;  // of one of them
  double compute = 0.0;
  double messages = 0.0;
};

// A bound of the seconds that a plan in lane b can yet gain on one in lane a, whatever comes. Of
// idle time lane a can use what it lacks for the messages to come; of `open` no more than the
// longest communication, and for these messages what that leaves.
inline double advantage(const Lane& b, const Lane& a, const LaneNeeds& needs, const Turns& turns) {
  const auto excess = [](double x, double y, double most) {
    return std::max(0.0, std::min(x, most) - std::min(y, most));
  };
  const double idle = std::max(0.0, std::min(b.idle() - a.idle(), needs.messages - a.spare));
  const double open = excess(b.open, a.open, needs.largest_comm + needs.messages);
  const double room = excess(b.room, a.room, needs.compute);
  return (1.0 - turns.interference) * (idle + open + turns.count * room);
}

}  // namespace hidup
