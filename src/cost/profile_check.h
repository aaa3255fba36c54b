// Whether a profile of an earlier run still holds: its numbers, and some of its messages, which are
// measured again.
#pragma once

#include <string>
#include <vector>

#include "cost/profile.h"

namespace hidup {

// The first number that no machine has, for people: "matmul at 2e+20 flop/s"; empty: there is none.
std::string implausible_number(const Profile& profile);

// A message of a profile, to be measured again.
struct Probe {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
  double alone_s = 0.0;  // the profile's time
  int repetitions = 0;   // in a row, behind one that warms up; their median counts, as in a profile
  int rows = 0;
};

// Of every axis with several ranks a small all_reduce, for the latency, and a large one, for the
// bandwidth: the largest that can be repeated at least twice. All together they take no longer than
// `seconds`, if the profile holds; none is longer than `most_bytes`.
std::vector<Probe> probes_of(const Profile& profile, double seconds, double most_bytes);

// What a probe took: of its rows, the mean over all ranks.
struct ProbeTimes {
  double fastest_s = 0.0;
  double median_s = 0.0;
};

// How far two times of a message may lie apart.
struct Tolerance {
  double part = 0.2;     // of the shorter one, and
  double seconds = 0.0;  // by which a message may be late at any time
};

// Whether the profile's time is too far from these. Other work on the machine makes messages longer
// now and then, but never shorter: it is too short where even the fastest row is longer by more
// than the tolerance, too long where half of the rows are shorter by more.
bool is_off(const Probe& probe, const ProbeTimes& now, const Tolerance& tolerance);

// "all_reduce of 256.00 KiB along node takes 1.10 ms, not 10.50 ms"
std::string describe(const Probe& probe, const ProbeTimes& now, const Mesh& mesh);

}  // namespace hidup
