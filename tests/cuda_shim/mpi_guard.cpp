// An MPI without CUDA support: it accepts host memory only, as the plainest builds do. It precedes
// the MPI library (its profiling interface) in programs built on the shim.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "state.h"

namespace {

template <typename... Buffers>
void require_host_memory(const char* call, Buffers... buffers) {
  if ((cuda_shim::device_holds(buffers, 0) || ...)) {
    std::fprintf(stderr, "cuda_shim: %s was given memory of the device\n", call);
    std::abort();
  }
}

}  // namespace

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group,
              MPI_Request* request) {
  require_host_memory("MPI_Isend", data);
  return PMPI_Isend(data, count, type, to, tag, group, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm group,
              MPI_Request* request) {
  require_host_memory("MPI_Irecv", data);
  return PMPI_Irecv(data, count, type, from, tag, group, request);
}

int MPI_Sendrecv(const void* send, int sent, MPI_Datatype send_type, int to, int send_tag,
                 void* receive, int received, MPI_Datatype receive_type, int from, int receive_tag,
                 MPI_Comm group, MPI_Status* status) {
  require_host_memory("MPI_Sendrecv", send, receive);
  return PMPI_Sendrecv(send, sent, send_type, to, send_tag, receive, received, receive_type, from,
                       receive_tag, group, status);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm group) {
  require_host_memory("MPI_Bcast", data);
  return PMPI_Bcast(data, count, type, root, group);
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op operation,
                  MPI_Comm group) {
  require_host_memory("MPI_Allreduce", send, receive);
  return PMPI_Allreduce(send, receive, count, type, operation, group);
}

int MPI_Reduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op operation,
               int root, MPI_Comm group) {
  require_host_memory("MPI_Reduce", send, receive);
  return PMPI_Reduce(send, receive, count, type, operation, root, group);
}

int MPI_Reduce_scatter(const void* send, void* receive, const int* counts, MPI_Datatype type,
                       MPI_Op operation, MPI_Comm group) {
  require_host_memory("MPI_Reduce_scatter", send, receive);
  return PMPI_Reduce_scatter(send, receive, counts, type, operation, group);
}

int MPI_Allgatherv(const void* send, int sent, MPI_Datatype send_type, void* receive,
                   const int* counts, const int* starts, MPI_Datatype receive_type,
                   MPI_Comm group) {
  require_host_memory("MPI_Allgatherv", send, receive);
  return PMPI_Allgatherv(send, sent, send_type, receive, counts, starts, receive_type, group);
}
