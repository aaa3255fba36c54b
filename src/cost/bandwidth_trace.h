// A link whose bandwidth changes over time.
#pragma once

#include <cstdint>
#include <vector>

#include "core/units.h"

namespace hidup {

// A sequence of phases with given bandwidths, repeated from the start of the run. Bandwidths are
// whole bytes per second, so that message ends are exact.
class BandwidthTrace {
 public:
  struct Phase {
    double for_s = 0.0;      // at least 1 ns
    double bandwidth = 0.0;  // bytes/s, at least 1
  };

  // Makes a link of constant bandwidth.
  BandwidthTrace() = default;
  // `nominal`: the bandwidth in bytes/s that durations are given for, at least 1. Throws
  // Error(internal) for numbers that are too small.
  BandwidthTrace(double nominal, const std::vector<Phase>& phases);

  // Returns the end of a message that starts at `start` (since the run's start) and takes `nominal`
  // ns at the nominal bandwidth: the first whole nanosecond at which the integral of bandwidth /
  // nominal bandwidth reaches `nominal`. Throws Error(internal) for an end centuries later.
  Nanoseconds end_of(Nanoseconds start, Nanoseconds nominal) const;

  // Returns the nominal bandwidth over the least one; at least 1.
  double slowest() const;

  // Returns the least value of end_of(start, nominal) - start over all starts.
  Nanoseconds least(Nanoseconds nominal) const;

 private:
  struct Piece {
    Nanoseconds length;
    int64_t bandwidth;
  };
  int64_t nominal_ = 1;
  std::vector<Piece> pieces_;  // empty: the bandwidth is nominal_ all the time
  Nanoseconds period_ = 0;
};

}  // namespace hidup
