// Checks of MPI calls. For the sources of this folder only.
#pragma once

#include <mpi.h>

#include <string_view>

namespace hidup {

// Throws Error(communication) with `doing` and MPI's reason unless `status` is success.
void check_mpi(int status, std::string_view doing);

}  // namespace hidup
