#include "comm/mpi_messages.h"

#include <algorithm>
#include <array>

#include "comm/mpi_check.h"

namespace hidup {
namespace {

constexpr int64_t kChunk = int64_t{1} << 18;  // elements: 1 MiB stays in a core's cache

// Tags of whole messages, and of chunks that are sent ahead of them.
constexpr int kWhole = 0;
constexpr int kChunks = 1;

// Returns non-empty pieces of at most `limit` elements.
std::vector<Run> cut(const std::vector<Run>& runs, int64_t limit, int64_t bytes) {
  std::vector<Run> pieces;
  for (const Run& run : runs) {
    for (int64_t done = 0; done < run.count; done += limit) {
      pieces.push_back({at(run.data, done, bytes), std::min(limit, run.count - done)});
    }
  }
  return pieces;
}

}  // namespace

MPI_Datatype moved_type(int64_t bytes) {
  return bytes == 1 ? MPI_BYTE : bytes == 2 ? MPI_UINT16_T : MPI_UINT32_T;
}

MpiMessages::MpiMessages(MPI_Comm group, int64_t max_piece)
    : group_(group),
      max_piece_(max_piece),
      chunk_(std::min(kChunk, max_piece)),
      buffers_(std::make_unique_for_overwrite<std::byte[]>(4 * static_cast<size_t>(chunk_) *
                                                           sizeof(float))) {
  check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
}

void MpiMessages::send(const Run& run, int to, int tag, int64_t bytes,
                       std::vector<MPI_Request>& requests, const std::string& doing) {
  traffic_.bytes += run.count * bytes;
  check_mpi(MPI_Isend(run.data, static_cast<int>(run.count), moved_type(bytes), to, tag, group_,
                      &requests.emplace_back(MPI_REQUEST_NULL)),
            doing);
}

void MpiMessages::receive(const Run& run, int from, int tag, int64_t bytes, MPI_Request& request,
                          const std::string& doing) {
  check_mpi(MPI_Irecv(run.data, static_cast<int>(run.count), moved_type(bytes), from, tag, group_,
                      &request),
            doing);
}

void MpiMessages::wait_for(std::vector<MPI_Request>& requests, const std::string& doing) {
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            doing);
}

void MpiMessages::exchange(const std::vector<Run>& sends, int to, const std::vector<Run>& receives,
                           int from, int64_t bytes, const std::string& doing) {
  std::vector<MPI_Request> requests;
  for (const Run& piece : cut(receives, max_piece_, bytes)) {
    receive(piece, from, kWhole, bytes, requests.emplace_back(MPI_REQUEST_NULL), doing);
  }
  for (const Run& piece : cut(sends, max_piece_, bytes)) {
    send(piece, to, kWhole, bytes, requests, doing);
  }
  traffic_.steps += requests.empty() ? 0 : 1;
  wait_for(requests, doing);
}

void MpiMessages::exchange_and_add(const std::vector<Run>& sends, int to,
                                   const std::vector<Run>& sums, int from, const Elements& elements,
                                   const std::string& doing) {
  std::vector<MPI_Request> sending = send_chunks(sends, to, elements.bytes, doing);
  receive_chunks(
      sums, from, elements.bytes,
      [&](const Run& sum, const void* part) {
        elements.sum(sum.data, std::array<const void*, 2>{sum.data, part}, sum.count);
      },
      doing);
  wait_for(sending, doing);
}

std::vector<MPI_Request> MpiMessages::send_chunks(const std::vector<Run>& sends, int to,
                                                  int64_t bytes, const std::string& doing) {
  std::vector<MPI_Request> requests;
  for (const Run& piece : cut(sends, chunk_, bytes)) {
    send(piece, to, kChunks, bytes, requests, doing);
  }
  ++traffic_.steps;
  return requests;
}

void MpiMessages::receive_chunks(const std::vector<Run>& places, int from, int64_t bytes,
                                 const TakeChunk& take, const std::string& doing) {
  const std::vector<Run> pieces = cut(places, chunk_, bytes);
  const auto incoming = [&](size_t i) { return buffer(static_cast<int>(i % 2)); };
  std::array<MPI_Request, 2> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  const auto begin = [&](size_t i) {
    if (i < pieces.size()) {
      receive({incoming(i), pieces[i].count}, from, kChunks, bytes, requests.at(i % 2), doing);
    }
  };
  begin(0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    begin(i + 1);
    check_mpi(MPI_Wait(&requests.at(i % 2), MPI_STATUS_IGNORE), doing);
    take(pieces[i], incoming(i));
  }
}

}  // namespace hidup
