// The frame of commands that mpirun starts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/heartbeat.h"
#include "comm/mpi_session.h"

namespace hidup {

class Executor;  // runtime/executor.h

enum class Versions { same, any };

// Runs the work between start and end of MPI. Returns its exit code, the same on all ranks, or that
// of an error common to all ranks, which one of them prints. Other exceptions end all ranks where
// they are thrown (comm/mpi_session.h), so no handler may surround this call. All ranks must have
// the same arguments, and run the same version unless `versions` is any (app/launch.h).
int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work,
            Versions versions = Versions::same);

// Returns a guide for heartbeats (comm/heartbeat.h) that report a starting rank until run_steps().
Heartbeat::Guide guide_of_start(MpiSession& mpi);

// Runs the work, which executes steps, each called a `unit`. Meanwhile heartbeats report this
// rank's step and instruction. `current`: returns the step, from any thread; 0 before the first. A
// rank that fails alone ends all ranks here, because unwinding would wait for collectives that the
// others never finish. A CollectiveError, which all ranks share, propagates.
void run_steps(MpiSession& mpi, const std::string& unit, const std::function<int64_t()>& current,
               const Executor& executor, const std::function<void()>& work);

}  // namespace hidup
