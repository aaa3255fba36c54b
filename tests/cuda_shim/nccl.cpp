// The calls of NCCL between processes, over MPI. nccl_exchange.cpp does the work that they begin.
//
// HIDUP_FAKE_NCCL_FAULT has faults, KIND:rank=R:call=N with commas between them; R is a rank of the
// world, by default all; N counts from 1. Faults of the rank's calls (0 starts a communicator):
//   hang         the call does not return: the rank never comes
//   call_error   the call fails
//   slow         the call takes some of the watchdog's periods
// Faults of the collectives in its streams, from calls or graphs:
//   stall        the rank comes, but its collective moves nothing
//   async_error  the collective fails
// Faults of ncclCommAbort: abort_fails, abort_hangs.
//
// A communicator takes CUDA_SHIM_NCCL_MEMORY bytes of the device, by default none.
#include "nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_comm.h"
#include "state.h"
#include "stream.h"

using nccl_shim::Entry;
using nccl_shim::hang;
using nccl_shim::has_fault;
using nccl_shim::Id;
using nccl_shim::Kind;
using nccl_shim::lives;
using nccl_shim::living;
using nccl_shim::name_of;
using nccl_shim::Operation;
using nccl_shim::Place;
using nccl_shim::process_error;
using nccl_shim::refuse;
using nccl_shim::run_work;
using nccl_shim::size_of;
using nccl_shim::start;
using nccl_shim::Work;
using nccl_shim::world_rank;

namespace {

thread_local int group_depth = 0;
thread_local ncclResult_t group_error = ncclSuccess;
thread_local std::vector<std::pair<cudaStream_t, std::shared_ptr<Work>>> group_works;

// Call it with comm.mutex held.
ncclResult_t begin_progress(ncclComm& comm, std::function<cudaError_t()> launch) {
  constexpr int kPolls = 2;
  comm.polls = kPolls;
  comm.launch = std::move(launch);
  return ncclInProgress;
}

ncclResult_t submit(cudaStream_t stream, std::shared_ptr<Work> work) {
  static std::atomic<int> calls = 0;
  const int call = ++calls;
  ncclComm& comm = *work->comm;
  if (has_fault("hang", call)) {
    hang();
  }
  if (has_fault("slow", call)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (has_fault("call_error", call)) {
    return refuse(&comm, ncclSystemError, "a call fails, as HIDUP_FAKE_NCCL_FAULT says");
  }
  const auto launch = [stream, work = std::move(work)] {
    return cuda_shim::fault_set()
               ? cudaErrorLaunchFailure
               : cuda_shim::stream_or_default(stream).give([work] { run_work(*work); });
  };
  if (comm.blocking) {
    return launch() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  }
  const std::lock_guard lock(comm.mutex);
  return begin_progress(comm, launch);
}

ncclResult_t check_comm(const Entry& entry) {
  ncclComm_t comm = entry.comm();
  const char* call = entry.call();
  if (entry.result() != ncclSuccess) {
    return entry.result();
  }
  if (!lives(comm)) {
    return refuse(nullptr, ncclInvalidArgument,
                  fmt::format("{} on a communicator that is destroyed or aborted", call));
  }
  const auto polls = [comm] {
    const std::lock_guard lock(comm->mutex);
    return comm->polls;
  };
  if (comm->state == ncclInProgress || polls() > 0) {
    return refuse(comm, ncclInvalidUsage,
                  fmt::format("{} while the call before it is in progress", call));
  }
  return comm->state;
}

ncclResult_t check_operation(const Operation& operation, const Entry& entry) {
  ncclComm_t comm = entry.comm();
  const char* call = entry.call();
  const ncclResult_t usable = check_comm(entry);
  if (usable != ncclSuccess) {
    return usable;
  }
  const Kind kind = operation.kind;
  if (operation.peer < -1 || operation.peer >= comm->size) {
    return refuse(comm, ncclInvalidArgument, fmt::format("{}: no rank {}", call, operation.peer));
  }
  const bool sums =
      kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
  if (sums && operation.type == ncclInt32) {
    return refuse(comm, ncclInvalidArgument, fmt::format("{}: the shim sums no integers", call));
  }
  const size_t bytes = operation.count * size_of(operation.type);
  const auto ranks = static_cast<size_t>(comm->size);
  const bool is_root = operation.peer == comm->rank;
  const bool sends = kind != Kind::receive && (kind != Kind::broadcast || is_root);
  const bool receives = kind != Kind::send && (kind != Kind::reduce || is_root);
  const size_t sent = kind == Kind::reduce_scatter ? ranks * bytes : bytes;
  const size_t received = kind == Kind::all_gather ? ranks * bytes : bytes;
  if ((sends && sent > 0 && !cuda_shim::device_holds(operation.send, sent)) ||
      (receives && received > 0 && !cuda_shim::device_holds(operation.receive, received))) {
    return refuse(comm, ncclInvalidArgument,
                  fmt::format("{} was given memory that is not the device's", call));
  }
  return ncclSuccess;
}

ncclResult_t give(const Operation& operation, ncclComm_t comm, cudaStream_t stream) {
  const Entry entry(comm, name_of(operation.kind));
  const ncclResult_t checked = check_operation(operation, entry);
  if (checked != ncclSuccess) {
    group_error = group_depth > 0 ? checked : group_error;
    return checked;
  }
  const bool grouped = group_depth > 0;
  const auto found = std::ranges::find_if(
      group_works, [&](const auto& given) { return given.second->comm == comm; });
  if (grouped && found != group_works.end()) {
    if (found->first != stream) {
      return refuse(comm, ncclInvalidUsage, "a group with two streams");
    }
    found->second->operations.push_back(operation);
    return ncclSuccess;
  }
  auto work = std::make_shared<Work>(comm);
  work->operations.push_back(operation);
  if (!grouped) {
    return submit(stream, std::move(work));
  }
  group_works.emplace_back(stream, std::move(work));
  return ncclSuccess;
}

bool bury(ncclComm_t comm) {
  const std::lock_guard lock(living().mutex);
  return living().comms.erase(comm) > 0;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  const Id mine{world_rank(), made++};
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, &mine, sizeof(mine));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm != nullptr && lives(comm)) {
    const std::lock_guard lock(comm->mutex);
    process_error() = comm->error;
  }
  return process_error().c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || rank < 0 || rank >= ranks) {
    return refuse(nullptr, ncclInvalidArgument, "ncclCommInitRankConfig: a wrong argument");
  }
  Id given;
  std::memcpy(&given, id.internal, sizeof(given));
  int device = 0;
  cudaGetDevice(&device);
  Place place{};
  cudaDeviceGetPCIBusId(place.pci_id, sizeof(place.pci_id), device);
  *comm = new ncclComm;
  (*comm)->size = ranks;
  (*comm)->rank = rank;
  (*comm)->blocking = config->blocking != 0;
  {
    const std::lock_guard lock(living().mutex);
    living().comms.insert(*comm);
  }
  if (const char* bytes = std::getenv("CUDA_SHIM_NCCL_MEMORY")) {
    cudaMalloc(&(*comm)->buffers, static_cast<size_t>(std::atoll(bytes)));
  }
  (*comm)->starter = std::thread(start, *comm, given, place);
  if (!(*comm)->blocking) {
    return ncclInProgress;
  }
  (*comm)->starter.join();
  return (*comm)->state;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const Entry entry(comm, "ncclCommFinalize");
  const ncclResult_t usable = check_comm(entry);
  if (usable != ncclSuccess || comm->blocking) {
    return usable;
  }
  const std::lock_guard lock(comm->mutex);
  return begin_progress(*comm, [] { return cudaSuccess; });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!bury(comm)) {
    return check_comm(Entry(comm, "ncclCommDestroy"));
  }
  if (comm->works > 0) {  // NCCL waits for them
    cuda_shim::set_fault("NCCL: ncclCommDestroy while streams or graphs hold collectives");
    return ncclInvalidUsage;
  }
  if (comm->starter.joinable()) {
    comm->starter.join();
  }
  if (comm->group != MPI_COMM_NULL) {
    PMPI_Comm_free(&comm->group);
  }
  cudaFree(comm->buffers);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (has_fault("abort_hangs", -1)) {
    hang();
  }
  if (has_fault("abort_fails", -1)) {
    return refuse(comm, ncclSystemError, "ncclCommAbort fails, as HIDUP_FAKE_NCCL_FAULT says");
  }
  if (!bury(comm)) {
    return check_comm(Entry(comm, "ncclCommAbort"));
  }
  comm->aborted = true;  // the rest stays: a stream may use it
  if (comm->starter.joinable()) {
    comm->starter.detach();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  const Entry entry(comm, "ncclCommGetAsyncError");
  if (entry.result() != ncclSuccess || !lives(comm)) {
    return check_comm(entry);
  }
  const std::lock_guard lock(comm->mutex);
  const bool in_progress = comm->polls > 0;
  if (in_progress && --comm->polls == 0 && std::exchange(comm->launch, nullptr)() != cudaSuccess) {
    comm->state = ncclUnhandledCudaError;
  }
  const ncclResult_t state = comm->state;
  *result = in_progress && state == ncclSuccess ? ncclInProgress : state;
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* data, size_t bytes, void** handle) {
  const Entry entry(comm, "ncclCommRegister");
  const ncclResult_t usable = check_comm(entry);
  if (usable != ncclSuccess) {
    return usable;
  }
  if (!cuda_shim::device_holds(data, bytes)) {
    return refuse(comm, ncclInvalidArgument, "ncclCommRegister: memory that is not the device's");
  }
  const std::lock_guard lock(comm->mutex);
  comm->registered.insert(data);
  *handle = data;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  const Entry entry(comm, "ncclCommDeregister");
  const ncclResult_t usable = check_comm(entry);
  if (usable != ncclSuccess) {
    return usable;
  }
  if (!cuda_shim::device_holds(handle, 0)) {
    return refuse(comm, ncclInvalidUsage, "ncclCommDeregister: the memory was freed before");
  }
  const std::lock_guard lock(comm->mutex);
  return comm->registered.erase(handle) > 0 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::all_reduce, send, receive, count, type, -1}, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t, int root, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::reduce, send, receive, count, type, root}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::broadcast, send, receive, count, type, root}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                               cudaStream_t stream) {
  return give({Kind::reduce_scatter, send, receive, receive_count, type, -1}, comm, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::all_gather, send, receive, send_count, type, -1}, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::send, send, nullptr, count, type, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return give({Kind::receive, nullptr, receive, count, type, peer}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) {
    return refuse(nullptr, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  }
  if (--group_depth > 0) {
    return ncclSuccess;
  }
  ncclResult_t result = std::exchange(group_error, ncclSuccess);
  if (result != ncclSuccess) {
    group_works.clear();
    return result;
  }
  for (auto& [stream, work] : std::exchange(group_works, {})) {
    const Entry entry(work->comm, "ncclGroupEnd");
    const ncclResult_t given =
        entry.result() == ncclSuccess ? submit(stream, std::move(work)) : entry.result();
    result = result == ncclSuccess || result == ncclInProgress ? given : result;
  }
  return result;
}
