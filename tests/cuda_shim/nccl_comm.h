// What stands in for NCCL: its communicators, and how they start and fail. See nccl.cpp.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// What is given to a stream at once. Streams that have it before them keep it, and graphs that may
// do it again.
struct Work {
  explicit Work(ncclComm_t of);
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ncclComm_t comm;
  std::vector<Operation> operations;
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

// A call on a communicator, of which NCCL takes one at a time. (ncclCommAbort may come beside any.)
class Entry {
 public:
  Entry(ncclComm_t comm, const char* call);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ncclComm_t comm() const { return comm_; }
  const char* call() const { return call_; }
  // ncclInvalidUsage where another thread is in a call.
  ncclResult_t result() const { return result_; }

 private:
  ncclComm_t comm_;
  const char* call_;
  bool entered_ = false;
  ncclResult_t result_ = ncclSuccess;
};

// Whether HIDUP_FAKE_NCCL_FAULT has that one for this rank's call; -1: whichever.
bool has_fault(const std::string& kind, int call);
[[noreturn]] void hang();
// Between two looks at whether messages came: ranks share the cores.
void nap();

int world_rank();
size_t size_of(ncclDataType_t type);
const char* name_of(Kind kind);

// What a unique id says.
struct Id {
  int creator;
  int serial;
};

// Where a device is in its host.
struct Place {
  char pci_id[16];
};

// Makes the communicator's group, once all its ranks came; on a thread of its own.
void start(ncclComm_t comm, const Id& id, const Place& place);

// In the stream's order.
void run_work(const Work& work);

}  // namespace nccl_shim

struct ncclComm {
  int size = 0;
  int rank = 0;
  MPI_Comm group = MPI_COMM_NULL;
  void* buffers = nullptr;  // of the device
  std::thread starter;
  std::atomic<ncclResult_t> state = ncclInProgress;
  bool blocking = true;
  std::atomic<bool> aborted = false;
  std::atomic<const char*> call = nullptr;  // that a thread is in
  std::atomic<int> works = 0;               // that live
  std::mutex mutex;                         // of what follows
  int polls = 0;                            // until the last call is no longer in progress
  std::function<cudaError_t()> launch;      // what it does then
  std::string error;
  std::set<void*> registered;
};
