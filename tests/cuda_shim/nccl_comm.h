// What stands in for NCCL: its communicators, and how they start and fail. See nccl.cpp.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"

namespace nccl_shim {

enum class Kind { all_reduce, reduce, broadcast, reduce_scatter, all_gather, send, receive };

struct Operation {
  Kind kind;
  const void* send;
  void* receive;
  size_t count;
  ncclDataType_t type;
  int peer;  // or the root; -1: there is none
};

// What is given to a stream at once.
struct Work {
  ncclComm_t comm;
  std::vector<Operation> operations;
  bool stalls = false;
  bool fails = false;
};

// Communicators that were started and not destroyed or aborted.
struct Living {
  std::mutex mutex;
  std::set<ncclComm_t> comms;
};
Living& living();
bool lives(ncclComm_t comm);

// Of the calls of this thread.
std::string& process_error();
// Tells of it, as the communicator's error too, where there is one; returns the result.
ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, const std::string& why);
// The error of a call that has returned.
void fail_later(ncclComm& comm, ncclResult_t result, const std::string& why);

// Whether HIDUP_FAKE_NCCL_FAULT has that one for this rank's call; -1: whichever.
bool has_fault(const std::string& kind, int call);
[[noreturn]] void hang();

int world_rank();
size_t size_of(ncclDataType_t type);
const char* name_of(Kind kind);

// What a unique id says.
struct Id {
  int creator;
  int serial;
};

// Makes the communicator's group, once all its ranks came; on a thread of its own.
void start(ncclComm_t comm, const Id& id, int device);

// Does a Work, in the stream's order.
void run_work(void* work);

}  // namespace nccl_shim

struct ncclComm {
  int size = 0;
  int rank = 0;
  MPI_Comm group = MPI_COMM_NULL;
  std::thread starter;
  std::atomic<ncclResult_t> state = ncclInProgress;
  std::atomic<int> polls = 0;  // until it is no longer in progress, for no other reason
  std::atomic<bool> used = false;
  std::atomic<bool> aborted = false;
  std::atomic<int> pending = 0;  // works in streams
  std::mutex mutex;              // of what follows
  std::string error;
  std::vector<std::unique_ptr<nccl_shim::Work>> works;  // all there were: a graph may do one again
  std::set<void*> registered;
};
