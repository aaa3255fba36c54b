// Preloaded, this MPI library gives less than MPI_THREAD_MULTIPLE.
#include <mpi.h>

extern "C" int MPI_Init_thread(int* argc, char*** argv, int, int* provided) {
  const int status = PMPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, provided);
  *provided = MPI_THREAD_SERIALIZED;
  return status;
}
