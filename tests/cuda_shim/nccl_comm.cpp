#include "nccl_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>

namespace nccl_shim {

namespace {

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

// The data that a rank of a new communicator sends to the rank that made the id.
struct Member {
  int world_rank;
  int rank;
  int size;
  Place place;
  uint64_t host;
};

// Polls, because some rank may never come.
void receive(void* data, int bytes, int from, int tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Irecv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &request);
  int done = 0;
  while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
    nap();
  }
}

std::vector<Member> meet(const Id& id, const Member& me) {
  const int to_creator = 1000 + 2 * (id.serial % 10000);
  std::vector<Member> all(static_cast<size_t>(me.size));
  const auto bytes = static_cast<int>(all.size() * sizeof(Member));
  if (me.world_rank != id.creator) {
    PMPI_Send(&me, sizeof(me), MPI_BYTE, id.creator, to_creator, MPI_COMM_WORLD);
    receive(all.data(), bytes, id.creator, to_creator + 1);
    return all;
  }
  all[static_cast<size_t>(me.rank)] = me;
  for (int other = 1; other < me.size; ++other) {
    Member member;
    receive(&member, sizeof(member), MPI_ANY_SOURCE, to_creator);
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

}  // namespace

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

Entry::Entry(ncclComm_t comm, const char* call) : comm_(comm), call_(call) {
  const char* other = nullptr;
  if (!lives(comm)) {
    return;
  }
  entered_ = comm->call.compare_exchange_strong(other, call);
  if (!entered_) {
    result_ = refuse(comm, ncclInvalidUsage,
                     fmt::format("{} while another thread is in {}", call, other));
  }
}

Entry::~Entry() {
  if (entered_) {
    comm_->call = nullptr;
  }
}

int world_rank() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

bool has_fault(const std::string& kind, int call) {
  static const std::vector<Fault> faults = read_faults();
  return std::ranges::any_of(faults, [&](const Fault& fault) {
    return fault.kind == kind && (fault.rank == -1 || fault.rank == world_rank()) &&
           (fault.call == call || fault.call == -1);
  });
}

void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

[[noreturn]] void hang() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

Work::Work(ncclComm_t of) : comm(of) {
  ++comm->works;
}

Work::~Work() {
  --comm->works;
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

void start(ncclComm_t comm, const Id& id, const Place& place) {
  if (has_fault("hang", 0)) {
    hang();
  }
  const Member me{world_rank(), comm->rank, comm->size, place, host_number()};
  const std::vector<Member> all = meet(id, me);
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const std::string where = all[a].place.pci_id;
      if (all[a].host == all[b].host && where == all[b].place.pci_id) {
        return fail_later(*comm, ncclInvalidUsage,
                          fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA "
                                      "device {}",
                                      b, a, where));
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

}  // namespace nccl_shim
