// Every MPI call is checked. For the sources of this folder only.
#pragma once

#include <mpi.h>

#include <string_view>

namespace hidup {

// Throws Error(communication) naming what was being done and MPI's reason.
void check_mpi(int status, std::string_view doing);

}  // namespace hidup
