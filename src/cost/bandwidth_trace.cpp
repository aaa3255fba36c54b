#include "cost/bandwidth_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"

namespace hidup {
namespace {

constexpr Nanoseconds kLatest = std::numeric_limits<Nanoseconds>::max() / 2;

// Nanoseconds times bytes per second; values reach 2^63 x 1e15.
__extension__ using Sent = __int128;

Sent sent_in(Nanoseconds time, int64_t bandwidth) {
  return Sent{time} * bandwidth;
}

Nanoseconds rounded_up(Sent sent, int64_t bandwidth) {
  return static_cast<Nanoseconds>((sent + bandwidth - 1) / bandwidth);
}

int64_t whole(double bandwidth) {
  check(bandwidth >= 1.0, "a link of {} bytes/s", bandwidth);
  return std::llround(bandwidth);
}

}  // namespace

BandwidthTrace::BandwidthTrace(double nominal, const std::vector<Phase>& phases)
    : nominal_(whole(nominal)) {
  for (const Phase& phase : phases) {
    pieces_.push_back({nanoseconds(phase.for_s), whole(phase.bandwidth)});
    check(pieces_.back().length >= 1, "a bandwidth for {} s", phase.for_s);
    period_ += pieces_.back().length;
  }
}

Nanoseconds BandwidthTrace::end_of(Nanoseconds start, Nanoseconds nominal) const {
  check(start >= 0 && nominal >= 0, "a message from {} ns that takes {} ns", start, nominal);
  if (pieces_.empty() || nominal == 0) {
    return start + nominal;
  }
  Sent per_period = 0;
  for (const Piece& piece : pieces_) {
    per_period += sent_in(piece.length, piece.bandwidth);
  }
  Sent left = sent_in(nominal, nominal_);
  const Sent whole_periods = left / per_period;
  check(whole_periods <= (kLatest - start) / period_, "a message of more than {} ns", kLatest);
  const auto periods = static_cast<Nanoseconds>(whole_periods);
  left -= per_period * periods;
  Nanoseconds now = start + periods * period_;
  Nanoseconds into = now % period_;  // time into the piece
  size_t at = 0;
  for (; into >= pieces_[at].length; ++at) {
    into -= pieces_[at].length;
  }
  for (;; at = (at + 1) % pieces_.size(), into = 0) {
    const Piece& piece = pieces_[at];
    const Nanoseconds rest = piece.length - into;
    if (left <= sent_in(rest, piece.bandwidth)) {
      return now + rounded_up(left, piece.bandwidth);
    }
    left -= sent_in(rest, piece.bandwidth);
    now += rest;
  }
}

double BandwidthTrace::slowest() const {
  double slowest = 1.0;
  for (const Piece& piece : pieces_) {
    slowest =
        std::max(slowest, static_cast<double>(nominal_) / static_cast<double>(piece.bandwidth));
  }
  return slowest;
}

Nanoseconds BandwidthTrace::least(Nanoseconds nominal) const {
  if (pieces_.empty()) {
    return nominal;
  }
  const int64_t fastest = std::ranges::max_element(pieces_, {}, &Piece::bandwidth)->bandwidth;
  return rounded_up(sent_in(nominal, nominal_), fastest);
}

}  // namespace hidup
