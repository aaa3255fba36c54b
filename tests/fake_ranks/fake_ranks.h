// Ranks that are threads of one process, so that a unit test has several without mpirun. They check
// more than MPI: that all ranks of a group call the same collective.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

inline constexpr double kFakeTimeout = 60.0;  // seconds

// Returns one communicator per rank, each for a thread of its own with streams of its own; split()
// works, too. They may end in any order. Sums are added in the order of ranks.
//
// Where the ranks of a group call different collectives, or with different names or counts, every
// rank throws Error(communication) with both calls; likewise where a rank does not come within
// `timeout` seconds. Device collectives throw in the stream. Afterwards all ranks of all groups
// from this call throw the same error, as after MPI_Abort. A `send` that overlaps `receive` is an
// Error(internal).
std::vector<std::unique_ptr<Communicator>> make_fake_ranks(int ranks,
                                                           double timeout = kFakeTimeout);

// Runs `body` once per rank, each in a thread, and waits for all. Throws the first error of a rank,
// which also frees the others from their collectives.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body,
               double timeout = kFakeTimeout);

}  // namespace hidup
