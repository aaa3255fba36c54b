// Takes the measured times of a run into a profile.
#pragma once

#include "cost/profile.h"
#include "io/timing_input.h"
#include "program/program.h"

namespace hidup {

// Counts of the sizes that a profile took over.
struct Absorbed {
  int operations = 0;  // sizes of operations that the profile distinguishes
  int messages = 0;    // sizes of collectives
};

// Replaces or adds times in `profile`: of operations and collectives that ran alone, and of
// collectives during which all their ranks computed. They are medians over steps (without the run's
// first), ranks and similar instructions. If a collective ran only alone, or only beside
// computation, its other time changes by the same factor. Other times stay. `program`: the run's.
// Throws Error(file) where the record is of another program, has no such times, or implausible
// ones.
Absorbed absorb(const TimingRecord& record, const Program& program, Profile& profile);

// Returns the key that a profile must have to take times of this run. Where the timing file does
// not tell, it takes `profile`'s.
ProfileKey key_of_run(const TimingRecord& record, const Mesh& mesh, const ProfileKey& profile);

}  // namespace hidup
