// What a run was started on, as far as the process itself can tell.
#pragma once

#include <string>
#include <vector>

#include "core/version.h"

namespace hidup {

// Now in UTC, ISO 8601 to the second: "2026-01-31T23:59:59Z".
std::string utc_now();

// The environment variables that steer communication, threads and the job
// (CUDA_*, NCCL_*, OMPI_*, SLURM_*, OMP_*) as "KEY=value", sorted; without what mpirun sets for its
// ranks, and without credentials, such as SLURM_JWT.
std::vector<std::string> run_environment();

// Version of the HDF5 library as loaded: "1.10.8".
std::string hdf5_version();

LibraryVersion hdf5_library();

}  // namespace hidup
