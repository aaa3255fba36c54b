// How much an incomplete pass can still make the operations to come cheaper.
#pragma once

#include <algorithm>

#include "search/problem/pass.h"

namespace hidup {

// Upper bounds of what the operations to come can make use of in a pass, in seconds.
struct RemainingWork {
  double largest_comm = 0.0;  // of one operation
  double compute = 0.0;       // of all
  double messages = 0.0;      // of all
};

// An upper bound of the seconds by which pass b can still gain on pass a, whatever operations come.
// Of b's additional idle time, only what a lacks for the messages to come counts. Additional
// open_compute counts up to the longest communication, and what is left of it for those messages.
// A second of idle time beside one microbatch serves a message or the communication that claims it,
// never both: of the two differences the larger one counts. This holds because evaluate() is
// monotone: with as much more computation, pass a would have both, and a pass with more
// computation takes no less time.
inline double advantage(const Pass& b, const Pass& a, const RemainingWork& remaining,
                        const Turns& turns) {
  const auto excess = [](double x, double y, double most) {
    return std::max(0.0, std::min(x, most) - std::min(y, most));
  };
  const double lacking = std::max(0.0, remaining.messages - a.turns_idle);
  const double in_turns = excess(b.turns_idle, a.turns_idle, remaining.messages);
  const double more = b.idle() - a.idle();
  const double idle = std::max(0.0, std::min(more, lacking - a.spare));
  const double compute =
      excess(b.open_compute, a.open_compute, remaining.largest_comm + remaining.messages);
  const double own = std::min(idle + compute, std::max({0.0, more, compute}));
  const double comm = excess(b.open_comm, a.open_comm, remaining.compute);
  return (1.0 - turns.interference) * (in_turns + own + turns.count * comm);
}

}  // namespace hidup
