// NCCL between processes, over MPI: messages between two ranks at a time, each with a header that
// tells what the sender means by it, so that ranks which mean different collectives are found.
//
// HIDUP_FAKE_NCCL_FAULT has faults, KIND:rank=R:call=N with commas between them; R is a rank of the
// world, without it all; N counts the rank's collectives from 1, 0 is the start of a communicator.
//   hang         the call does not return: the rank never comes
//   stall        the rank comes, but its collective moves nothing
//   call_error   the call fails
//   async_error  the collective fails later, on the device
//   abort_fails, abort_hangs: what ncclCommAbort does
#include "nccl.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "state.h"

namespace {

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

// What one rank tells another of a message. A send and a receive mean the same.
struct Header {
  int64_t kind;
  int64_t type;
  int64_t count;
  int64_t root;
  bool operator==(const Header&) const = default;
};

struct Fault {
  std::string kind;
  int rank = -1;
  int call = -1;
};

std::vector<Fault> read_faults() {
  std::vector<Fault> faults;
  const char* text = std::getenv("HIDUP_FAKE_NCCL_FAULT");
  std::istringstream all(text == nullptr ? "" : text);
  for (std::string one; std::getline(all, one, ',');) {
    std::istringstream parts(one);
    Fault fault;
    std::getline(parts, fault.kind, ':');
    for (std::string part; std::getline(parts, part, ':');) {
      int& value = part.starts_with("rank=") ? fault.rank : fault.call;
      value = std::atoi(part.c_str() + part.find('=') + 1);
    }
    faults.push_back(fault);
  }
  return faults;
}

int world_rank() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

// call -1: whichever.
bool has_fault(const std::string& kind, int call) {
  static const std::vector<Fault> faults = read_faults();
  return std::ranges::any_of(faults, [&](const Fault& fault) {
    return fault.kind == kind && (fault.rank == -1 || fault.rank == world_rank()) &&
           (fault.call == call || fault.call == -1);
  });
}

[[noreturn]] void hang() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

}  // namespace

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
  std::vector<std::unique_ptr<Work>> works;  // all there were: a graph may do one again
  std::set<void*> registered;
};

namespace {

thread_local int group_depth = 0;
thread_local ncclResult_t group_error = ncclSuccess;
thread_local std::vector<std::pair<cudaStream_t, std::unique_ptr<Work>>> group_works;

// Communicators that were started and not destroyed or aborted.
struct Living {
  std::mutex mutex;
  std::set<ncclComm_t> comms;
};
Living& living() {
  static auto* all = new Living;
  return *all;
}

bool lives(ncclComm_t comm) {
  const std::lock_guard lock(living().mutex);
  return living().comms.contains(comm);
}

std::string& process_error() {
  thread_local std::string error;
  return error;
}

ncclResult_t refuse(ncclComm_t comm, ncclResult_t result, const std::string& why) {
  std::fprintf(stderr, "cuda_shim: NCCL: %s\n", why.c_str());
  process_error() = why;
  if (comm != nullptr && lives(comm)) {
    const std::lock_guard lock(comm->mutex);
    comm->error = why;
  }
  return result;
}

void fail_later(ncclComm& comm, ncclResult_t result, const std::string& why) {
  refuse(&comm, result, why);
  comm.state = result;
}

size_t size_of(ncclDataType_t type) {
  return type == ncclInt32 || type == ncclFloat32 ? 4 : 2;
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"ncclAllReduce",     "ncclReduce",    "ncclBroadcast",
                                    "ncclReduceScatter", "ncclAllGather", "ncclSend",
                                    "ncclRecv"};
  return kNames[static_cast<int>(kind)];
}

float to_float(float value) {
  return value;
}
float to_float(__half value) {
  return __half2float(value);
}
float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

void set(float& value, float to) {
  value = to;
}
void set(__half& value, float to) {
  value = __float2half_rn(to);
}
void set(__nv_bfloat16& value, float to) {
  value = __float2bfloat16_rn(to);
}

// What a work sends and receives, and what is to be done after that.
class Exchange {
 public:
  explicit Exchange(ncclComm& comm) : comm_(comm) {}

  void add(const Operation& operation) {
    const size_t bytes = operation.count * size_of(operation.type);
    const auto* send = static_cast<const std::byte*>(operation.send);
    auto* receive = static_cast<std::byte*>(operation.receive);
    const bool is_root = operation.peer == comm_.rank;
    switch (operation.kind) {
      case Kind::all_reduce:
        for (int peer = 0; peer < comm_.size; ++peer) {
          send_to(peer, operation, send, bytes);
        }
        return sum(operation, bytes);
      case Kind::reduce:
        send_to(operation.peer, operation, send, bytes);
        return is_root ? sum(operation, bytes) : void();
      case Kind::reduce_scatter:
        for (int peer = 0; peer < comm_.size; ++peer) {
          send_to(peer, operation, send + static_cast<size_t>(peer) * bytes, bytes);
        }
        return sum(operation, bytes);
      case Kind::broadcast:
        if (!is_root) {
          return receive_from(operation.peer, operation, receive, bytes);
        }
        for (int peer = 0; peer < comm_.size; ++peer) {
          if (peer != comm_.rank) {
            send_to(peer, operation, send, bytes);
          }
        }
        after_.emplace_back([=] { std::memmove(receive, send, bytes); });
        return;
      case Kind::all_gather:
        for (int peer = 0; peer < comm_.size; ++peer) {
          send_to(peer, operation, send, bytes);
          receive_from(peer, operation, receive + static_cast<size_t>(peer) * bytes, bytes);
        }
        return;
      case Kind::send:
        return send_to(operation.peer, operation, send, bytes);
      case Kind::receive:
        return receive_from(operation.peer, operation, receive, bytes);
    }
  }

  void run() {
    std::vector<MPI_Request> requests;
    for (Message& message : sends_) {
      start(PMPI_Isend, &message.header, sizeof(Header), message.peer, 0, requests);
    }
    for (Message& message : receives_) {
      start(PMPI_Irecv, &message.told, sizeof(Header), message.peer, 0, requests);
    }
    if (!wait(requests) || !agree()) {
      return;
    }
    for (Message& message : sends_) {
      start(PMPI_Isend, message.data, message.bytes, message.peer, 1, requests);
    }
    for (Message& message : receives_) {
      start(PMPI_Irecv, message.data, message.bytes, message.peer, 1, requests);
    }
    if (!wait(requests)) {
      return;
    }
    for (const auto& work : after_) {
      work();
    }
  }

 private:
  struct Message {
    int peer;
    std::byte* data;
    size_t bytes;
    Header header;
    Header told;
    Kind kind;
  };

  static Header header_of(const Operation& operation) {
    const bool pair = operation.kind == Kind::send || operation.kind == Kind::receive;
    return {static_cast<int64_t>(pair ? Kind::send : operation.kind),
            static_cast<int64_t>(operation.type), static_cast<int64_t>(operation.count),
            pair ? -1 : operation.peer};
  }

  void send_to(int peer, const Operation& operation, const std::byte* data, size_t bytes) {
    sends_.push_back(
        {peer, const_cast<std::byte*>(data), bytes, header_of(operation), {}, operation.kind});
  }

  void receive_from(int peer, const Operation& operation, std::byte* data, size_t bytes) {
    receives_.push_back({peer, data, bytes, header_of(operation), {}, operation.kind});
  }

  // Of what all ranks send here, in their order.
  void sum(const Operation& operation, size_t bytes) {
    switch (operation.type) {
      case ncclFloat16:
        return sum_of<__half>(operation, bytes);
      case ncclBfloat16:
        return sum_of<__nv_bfloat16>(operation, bytes);
      default:  // check_operation() lets nothing else pass
        return sum_of<float>(operation, bytes);
    }
  }

  template <typename T>
  void sum_of(const Operation& operation, size_t bytes) {
    auto parts =
        std::make_shared<std::vector<T>>(operation.count * static_cast<size_t>(comm_.size));
    for (int peer = 0; peer < comm_.size; ++peer) {
      receive_from(peer, operation,
                   reinterpret_cast<std::byte*>(parts->data()) + static_cast<size_t>(peer) * bytes,
                   bytes);
    }
    after_.emplace_back([parts, count = operation.count, ranks = static_cast<size_t>(comm_.size),
                         to = static_cast<T*>(operation.receive)] {
      for (size_t i = 0; i < count; ++i) {
        float total = to_float((*parts)[i]);
        for (size_t rank = 1; rank < ranks; ++rank) {
          total += to_float((*parts)[rank * count + i]);
        }
        set(to[i], total);
      }
    });
  }

  template <typename Call, typename Data>
  void start(Call call, Data* data, size_t bytes, int peer, int tag,
             std::vector<MPI_Request>& requests) {
    if (bytes > 0) {
      requests.push_back(MPI_REQUEST_NULL);
      call(data, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.group, &requests.back());
    }
  }

  // Whether the messages all came; not after an abort.
  bool wait(std::vector<MPI_Request>& requests) {
    int done = 0;
    while (done == 0) {
      if (comm_.aborted) {
        return false;
      }
      PMPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
      if (done == 0) {
        std::this_thread::yield();
      }
    }
    requests.clear();
    return true;
  }

  bool agree() {
    for (const Message& message : receives_) {
      const Header& mine = message.header;
      const Header& told = message.told;
      if (mine != told) {
        fail_later(comm_, ncclInvalidArgument,
                   fmt::format("rank {} came to {} of {} elements of type {} with root {}, rank {} "
                               "to {} of {} of type {} with root {}",
                               comm_.rank, name_of(message.kind), mine.count, mine.type, mine.root,
                               message.peer, name_of(static_cast<Kind>(told.kind)), told.count,
                               told.type, told.root));
        return false;
      }
    }
    return true;
  }

  ncclComm& comm_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
  std::vector<std::function<void()>> after_;
};

// In the stream's order.
void run_work(void* data) {
  auto& work = *static_cast<Work*>(data);
  ncclComm& comm = *work.comm;
  if (work.fails) {
    fail_later(comm, ncclRemoteError, "a collective fails, as HIDUP_FAKE_NCCL_FAULT says");
  }
  if (work.fails || work.stalls) {
    while (!comm.aborted) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (!comm.aborted) {
    auto exchange = std::make_unique<Exchange>(comm);
    for (const Operation& operation : work.operations) {
      exchange->add(operation);
    }
    exchange->run();
    if (comm.aborted) {
      static_cast<void>(exchange.release());  // messages may still come
    }
  }
  --comm.pending;
}

ncclResult_t submit(cudaStream_t stream, std::unique_ptr<Work> work) {
  static std::atomic<int> calls = 0;
  const int call = ++calls;
  ncclComm& comm = *work->comm;
  if (has_fault("hang", call)) {
    hang();
  }
  if (has_fault("call_error", call)) {
    return refuse(&comm, ncclSystemError, "a call fails, as HIDUP_FAKE_NCCL_FAULT says");
  }
  work->stalls = has_fault("stall", call);
  work->fails = has_fault("async_error", call);
  ++comm.pending;
  Work* given = work.get();
  {
    const std::lock_guard lock(comm.mutex);
    comm.works.push_back(std::move(work));
  }
  if (cudaLaunchHostFunc(stream, run_work, given) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  // As when the first message to a rank needs a connection.
  if (!comm.used.exchange(true)) {
    comm.polls = 2;
    return ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t check_comm(ncclComm_t comm, const char* call) {
  if (!lives(comm)) {
    return refuse(nullptr, ncclInvalidArgument,
                  fmt::format("{} on a communicator that is destroyed or aborted", call));
  }
  if (comm->state == ncclInProgress || comm->polls > 0) {
    return refuse(comm, ncclInvalidUsage,
                  fmt::format("{} while the call before it is in progress", call));
  }
  return comm->state;
}

ncclResult_t check_operation(const Operation& operation, ncclComm_t comm) {
  const char* call = name_of(operation.kind);
  const ncclResult_t usable = check_comm(comm, call);
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
  const ncclResult_t checked = check_operation(operation, comm);
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
  auto work = std::make_unique<Work>(Work{comm, {operation}});
  if (!grouped) {
    return submit(stream, std::move(work));
  }
  group_works.emplace_back(stream, std::move(work));
  return ncclSuccess;
}

// What the ranks of a new communicator tell the one that made the id.
struct Member {
  int world_rank;
  int rank;
  int size;
  int device;
  uint64_t host;
};

struct Id {
  int creator;
  int serial;
};

std::vector<Member> meet(const Id& id, const Member& me) {
  const int to_creator = 1000 + 2 * (id.serial % 10000);
  std::vector<Member> all(static_cast<size_t>(me.size));
  const auto bytes = static_cast<int>(all.size() * sizeof(Member));
  if (me.world_rank != id.creator) {
    PMPI_Send(&me, sizeof(me), MPI_BYTE, id.creator, to_creator, MPI_COMM_WORLD);
    PMPI_Recv(all.data(), bytes, MPI_BYTE, id.creator, to_creator + 1, MPI_COMM_WORLD,
              MPI_STATUS_IGNORE);
    return all;
  }
  all[static_cast<size_t>(me.rank)] = me;
  for (int other = 1; other < me.size; ++other) {
    Member member;
    PMPI_Recv(&member, sizeof(member), MPI_BYTE, MPI_ANY_SOURCE, to_creator, MPI_COMM_WORLD,
              MPI_STATUS_IGNORE);
    all[static_cast<size_t>(member.rank)] = member;
  }
  for (const Member& member : all) {
    if (member.world_rank != me.world_rank) {
      PMPI_Send(all.data(), bytes, MPI_BYTE, member.world_rank, to_creator + 1, MPI_COMM_WORLD);
    }
  }
  return all;
}

uint64_t host_number() {
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  PMPI_Get_processor_name(name, &length);
  return std::hash<std::string>()(name);
}

void start(ncclComm_t comm, const Id& id, int device) {
  if (has_fault("hang", 0)) {
    hang();
  }
  const Member me{world_rank(), comm->rank, comm->size, device, host_number()};
  const std::vector<Member> all = meet(id, me);
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (all[a].host == all[b].host && all[a].device == all[b].device) {
        return fail_later(*comm, ncclInvalidUsage,
                          fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA "
                                      "device {}",
                                      b, a, all[a].device));
      }
    }
  }
  std::vector<int> ranks;
  for (const Member& member : all) {
    ranks.push_back(member.world_rank);
  }
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_incl(world, comm->size, ranks.data(), &members);
  PMPI_Comm_create_group(MPI_COMM_WORLD, members, 1000 + id.serial % 10000, &comm->group);
  PMPI_Group_free(&members);
  PMPI_Group_free(&world);
  comm->state = ncclSuccess;
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
  *comm = new ncclComm;
  (*comm)->size = ranks;
  (*comm)->rank = rank;
  {
    const std::lock_guard lock(living().mutex);
    living().comms.insert(*comm);
  }
  (*comm)->starter = std::thread(start, *comm, given, device);
  if (config->blocking == 0) {
    return ncclInProgress;
  }
  (*comm)->starter.join();
  return (*comm)->state;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const ncclResult_t usable = check_comm(comm, "ncclCommFinalize");
  if (usable == ncclSuccess) {
    comm->polls = 2;
    return ncclInProgress;
  }
  return usable;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!bury(comm)) {
    return check_comm(comm, "ncclCommDestroy");
  }
  if (comm->pending > 0) {
    cuda_shim::set_fault("NCCL: ncclCommDestroy while collectives run");
    return ncclInvalidUsage;
  }
  if (comm->starter.joinable()) {
    comm->starter.join();
  }
  if (comm->group != MPI_COMM_NULL) {
    PMPI_Comm_free(&comm->group);
  }
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
    return check_comm(comm, "ncclCommAbort");
  }
  comm->aborted = true;  // the rest stays: a stream may be in it
  if (comm->starter.joinable()) {
    comm->starter.detach();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (!lives(comm)) {
    return check_comm(comm, "ncclCommGetAsyncError");
  }
  *result = comm->state;
  if (comm->state == ncclSuccess && comm->polls > 0) {
    --comm->polls;
    *result = ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void* data, size_t bytes, void** handle) {
  const ncclResult_t usable = check_comm(comm, "ncclCommRegister");
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
  const ncclResult_t usable = check_comm(comm, "ncclCommDeregister");
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
    const ncclResult_t given = submit(stream, std::move(work));
    result = result == ncclSuccess || result == ncclInProgress ? given : result;
  }
  return result;
}
