// Ranks that are threads of one process, so that a unit test sees several without
// mpirun. They check what MPI cannot: that all ranks of a group mean the same
// collective.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

inline constexpr double kFakeTimeout = 60.0;  // seconds

// One communicator per rank, each for a thread of its own with streams of its own;
// split() included. They may
// end in any order. Sums are added in the order of ranks.
//
// Where the ranks of a group come with different collectives, names or counts, every
// one throws Error(communication) that tells both; likewise where a rank does not
// come within `timeout` seconds. Device collectives throw in the stream. After that
// all ranks of all groups that came from this call throw the same, as after MPI_Abort.
// A `send` that overlaps `receive` is an Error(internal).
std::vector<std::unique_ptr<Communicator>> make_fake_ranks(int ranks,
                                                           double timeout = kFakeTimeout);

// Runs `body` once per rank, each in a thread, and waits for all. Throws what the
// first one to fail threw; the others are then freed from their collectives.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body,
               double timeout = kFakeTimeout);

}  // namespace hidup
