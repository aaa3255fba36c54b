// A bound of the time that an incomplete pass can still save the operations to come.
#pragma once

#include <algorithm>

#include "search/problem/pass.h"

namespace hidup {

// Upper bounds, in seconds, of the remaining operations' use of a pass.
struct RemainingWork {
  double largest_comm = 0.0;  // of one operation
  double compute = 0.0;       // of all operations
  double messages = 0.0;      // of all operations
};

// The numbers of a pass, cut to the use that the remaining operations can make of them. A pass that
// is compared with many others computes them once.
struct Standing {
  Standing(const Pass& pass, const RemainingWork& remaining)
      : idle(pass.idle()),
        lacking(std::max(0.0, remaining.messages - pass.turns_idle) - pass.spare),
        turns_idle(std::min(pass.turns_idle, remaining.messages)),
        open_compute(std::min(pass.open_compute, remaining.largest_comm + remaining.messages)),
        open_comm(std::min(pass.open_comm, remaining.compute)) {}
  double idle;
  double lacking;  // idle time beside one microbatch that the messages to come lack
  double turns_idle, open_compute, open_comm;
};

// Returns an upper bound of the seconds by which pass b can still gain on pass a, whatever
// operations follow. Of b's additional idle time, only the part that a lacks for the messages to
// come counts. Additional open_compute counts up to the longest communication, and the rest of it
// for those messages. A second of idle time beside one microbatch serves a message or the
// communication that claims it, never both, so the larger of the two differences counts. The bound
// holds because evaluate() is monotone: with as much more computation, pass a would have both, and
// a pass with more computation takes no less time.
inline double advantage(const Standing& b, const Standing& a, const Turns& turns) {
  const double in_turns = std::max(0.0, b.turns_idle - a.turns_idle);
  const double more = b.idle - a.idle;
  const double idle = std::max(0.0, std::min(more, a.lacking));
  const double compute = std::max(0.0, b.open_compute - a.open_compute);
  const double own = std::min(idle + compute, std::max({0.0, more, compute}));
  const double comm = std::max(0.0, b.open_comm - a.open_comm);
  return (1.0 - turns.interference) * (in_turns + own + turns.count * comm);
}
inline double advantage(const Pass& b, const Pass& a, const RemainingWork& remaining,
                        const Turns& turns) {
  return advantage(Standing(b, remaining), Standing(a, remaining), turns);
}

}  // namespace hidup
