// Checks that an earlier profile still holds, by its numbers and by measuring some messages again.
#pragma once

#include <string>
#include <vector>

#include "cost/profile.h"

namespace hidup {

// Returns the first implausible number, for people: "matmul at 2e+20 flop/s"; empty without any.
std::string implausible_number(const Profile& profile);

// A message of a profile that is measured again.
struct Probe {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
  double alone_s = 0.0;  // the time in the profile
  int repetitions = 0;   // in a row, after one warm-up; their median counts, as in a profile
  int rows = 0;
};

// Returns two all_reduce probes for every axis with several ranks: a small one for the latency, and
// a large one for the bandwidth, the largest that fits at least twice. If the profile holds, all
// together take at most `seconds`. No probe is larger than `most_bytes`.
std::vector<Probe> probes_of(const Profile& profile, double seconds, double most_bytes);

// The times of a probe: of its rows, the mean over all ranks.
struct ProbeTimes {
  double fastest_s = 0.0;
  double median_s = 0.0;
};

// The allowed distance between two times of a message.
struct Tolerance {
  double part = 0.2;     // relative to the shorter time, plus
  double seconds = 0.0;  // a delay that a message may have at any time
};

// Returns true where the profile's time is too far from these. Other work on the machine sometimes
// slows messages but never speeds them up. So the profile's time is too short if even the fastest
// row exceeds it by more than the tolerance, too long if the median row is shorter by more.
bool is_off(const Probe& probe, const ProbeTimes& now, const Tolerance& tolerance);

// Returns text such as "all_reduce of 256.00 KiB along node takes 1.10 ms, not 10.50 ms".
std::string describe(const Probe& probe, const ProbeTimes& now, const Mesh& mesh);

}  // namespace hidup
