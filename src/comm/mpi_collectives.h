// Device collectives on MPI, blocking. For the sources of this folder only.
//
// MPI-3 counts and displacements are ints, and a rank of an all_to_all knows only
// its own counts. So what is long goes as messages between two ranks, which both
// know its length and cut it alike; ranks need not agree on a number of rounds.
//
// Chosen by measurement (Open MPI 4.1, shared memory, 2 and 4 ranks, 4 KiB to
// 16 MiB). Rings send every block once along each link, so a link between two
// nodes carries it once, however many ranks a node has.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hidup {

class MpiCollectives {
 public:
  // `max_piece`: elements that one MPI call may carry. Uses `group`, does not own it.
  MpiCollectives(MPI_Comm group, int64_t max_piece);

  // As in Communicator, but for two ranks or more, and at once. `doing`
  // ("all_gather of x") starts the text of an error.
  void all_reduce(float* data, int64_t count, const std::string& doing);
  void all_gather(const void* send, void* receive, const std::vector<int64_t>& counts,
                  const std::string& doing);
  void reduce_scatter(const float* send, float* receive, const std::vector<int64_t>& counts,
                      const std::string& doing);
  void all_to_all(const void* send, const std::vector<int64_t>& send_counts, void* receive,
                  const std::vector<int64_t>& receive_counts, const std::string& doing);
  void broadcast(void* data, int64_t count, const std::string& doing);

 private:
  void all_reduce_ring(float* data, int64_t count, const std::string& doing);
  // Sends to the right neighbour while it adds what it receives from the left one.
  void pass_and_add(const float* send, int64_t send_count, float* sum, int64_t sum_count,
                    const std::string& doing);
  // Begins to send everything to the right neighbour.
  std::vector<MPI_Request> send_chunks(const float* data, int64_t count, const std::string& doing);
  // Where a chunk lies of what was sent so, for as long as the call lasts.
  using TakeChunk = std::function<void(int64_t done, const float* part, int count)>;
  void receive_chunks(int64_t count, const std::string& doing, const TakeChunk& take);
  void all_gather_ring(const void* send, void* receive, const std::vector<int64_t>& counts,
                       const std::string& doing);
  void reduce_to(int root, const float* send, float* receive, int64_t count,
                 const std::string& doing);
  void reduce_scatter_ring(const float* send, float* receive, const std::vector<int64_t>& counts,
                           const std::string& doing);
  // Sends to the right neighbour while it receives from the left one.
  void pass_on(const void* send, int64_t send_count, void* receive, int64_t receive_count,
               const std::string& doing);
  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }

  MPI_Comm group_;
  int64_t max_piece_;
  int64_t chunk_;                     // elements of a block that go round a ring at once
  std::unique_ptr<float[]> partial_;  // [4, chunk_]: two that come, two sums on their way
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hidup
