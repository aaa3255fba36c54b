// The surroundings of a run, as far as the process itself can tell.
#pragma once

#include <string>
#include <vector>

#include "core/version.h"

namespace hidup {

// Returns the time in UTC, ISO 8601 to the second: "2026-01-31T23:59:59Z".
std::string utc_now();

// Returns the environment variables that steer communication, threads and the job (CUDA_*, NCCL_*,
// OMPI_*, SLURM_*, OMP_*) as "KEY=value", sorted, without those that mpirun sets for its ranks and
// without credentials, such as SLURM_JWT.
std::vector<std::string> run_environment();

// Returns the version of the loaded HDF5 library: "1.10.8".
std::string hdf5_version();

LibraryVersion hdf5_library();

}  // namespace hidup
