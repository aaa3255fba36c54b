// A run's measured times, taken into a profile.
#pragma once

#include "cost/profile.h"
#include "io/timing_input.h"
#include "program/program.h"

namespace hidup {

// What a profile took over.
struct Absorbed {
  int operations = 0;  // sizes of operations, as the profile distinguishes them
  int messages = 0;    // sizes of collectives
};

// Replaces or adds, in `profile`, the times of the operations and collectives that ran alone, and
// of the collectives beside which all their ranks computed: medians over steps (not the run's
// first), ranks and instructions that are alike. Where a collective was measured alone only, or
// beside computation only, its other time changes by the same factor. What ran otherwise is left as
// it is. `program`: the run's. Throws Error(file) where the record is of another program, or has no
// such times, or some that no machine has.
Absorbed absorb(const TimingRecord& record, const Program& program, Profile& profile);

// What the profile must have been measured with, to take times of this run: `profile`'s own key
// where the timing file does not tell.
ProfileKey key_of_run(const TimingRecord& record, const Mesh& mesh, const ProfileKey& profile);

}  // namespace hidup
