// A link whose bandwidth varies in time.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"

namespace hidup {

// Phases of given bandwidths, repeated from the run's start. Bandwidths are whole bytes per second,
// so that the end of a message is exact.
class BandwidthTrace {
 public:
  struct Phase {
    double for_s = 0.0;      // at least 1 ns
    double bandwidth = 0.0;  // bytes/s, at least 1
  };

  // A link that does not vary.
  BandwidthTrace() = default;
  // `nominal`: bytes/s of the link that durations are given for, at least 1. Throws Error(internal)
  // for numbers that are too small.
  BandwidthTrace(double nominal, const std::vector<Phase>& phases);

  // When what takes `nominal` ns at the nominal bandwidth is sent, if it starts then (since the
  // run's start): the first whole nanosecond at which the integral of bandwidth / nominal bandwidth
  // has come to that. Throws Error(internal) where that is centuries later.
  Nanoseconds end_of(Nanoseconds start, Nanoseconds nominal) const;

  // The nominal bandwidth over the least; at least 1.
  double slowest() const;

  // The least that end_of(start, nominal) - start can be.
  Nanoseconds least(Nanoseconds nominal) const;

 private:
  struct Piece {
    Nanoseconds length;
    int64_t bandwidth;
  };
  int64_t nominal_ = 1;
  std::vector<Piece> pieces_;  // empty: nominal_ all the time
  Nanoseconds period_ = 0;
};

}  // namespace hidup
