// The numbers of ranks in messages and groups: mpirun's, until the session changes their order. For
// the sources of this folder only.
#pragma once

#include <vector>

namespace hidup {

// Returns the number of the process with this rank in MPI_COMM_WORLD. Any thread may call it.
int number_of_rank(int mpi_rank);

// Sets the number of every rank of MPI_COMM_WORLD.
void number_ranks(std::vector<int> of_rank);

}  // namespace hidup
