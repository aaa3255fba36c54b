// The communicators of the stand-in for NCCL, their start and their failures. See nccl.cpp.
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
  int peer;  // or the root; -1: none
};

// Work given to a stream at once. It lives as long as a stream has yet to do it, or a graph may
// repeat it.
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

// Returns the last error of this thread's calls.
std::string& process_error();
// Records the reason, also as the communicator's error where there is one; returns the result.
ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, const std::string& why);
// Sets the error of a call that has returned.
void fail_later(ncclComm& comm, ncclResult_t result, const std::string& why);

// A call on a communicator, which allows one at a time. (ncclCommAbort may overlap any.)
class Entry {
 public:
  Entry(ncclComm_t comm, const char* call);
  ~Entry();
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ncclComm_t comm() const { return comm_; }
  const char* call() const { return call_; }
  // Returns ncclInvalidUsage where another thread is in a call.
  ncclResult_t result() const { return result_; }

 private:
  ncclComm_t comm_;
  const char* call_;
  bool entered_ = false;
  ncclResult_t result_ = ncclSuccess;
};

// Returns true if HIDUP_FAKE_NCCL_FAULT has this fault for the rank's call; -1 means any call.
bool has_fault(const std::string& kind, int call);
[[noreturn]] void hang();
// Sleeps between two polls for messages, because ranks share the cores.
void nap();

int world_rank();
size_t size_of(ncclDataType_t type);
const char* name_of(Kind kind);

// The content of a unique id.
struct Id {
  int creator;
  int serial;
};

// The place of a device in its host.
struct Place {
  char pci_id[16];
};

// Makes the communicator's group once all its ranks came, on a thread of its own.
void start(ncclComm_t comm, const Id& id, const Place& place);

// Runs the work; called in the stream's order.
void run_work(const Work& work);

}  // namespace nccl_shim

struct ncclComm {
  int size = 0;
  int rank = 0;
  MPI_Comm group = MPI_COMM_NULL;
  void* buffers = nullptr;  // on the device
  std::thread starter;
  std::atomic<ncclResult_t> state = ncclInProgress;
  bool blocking = true;
  std::atomic<bool> aborted = false;
  std::atomic<const char*> call = nullptr;  // the running call, or null
  std::atomic<int> works = 0;               // number of living ones
  std::mutex mutex;                         // guards the members below
  int polls = 0;                            // left until the last call has ended
  std::function<cudaError_t()> launch;      // what the call does then
  std::string error;
  std::set<void*> registered;
};
