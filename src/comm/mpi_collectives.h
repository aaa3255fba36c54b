// Device collectives on MPI, blocking. For the sources of this folder only.
//
// MPI-3 counts and displacements are ints, and a rank of an all_to_all knows only
// its own counts. So what is long goes as messages between two ranks, which both
// know its length and cut it alike; ranks need not agree on a number of rounds.
//
// Elements of 16 bits are added in float. A sum is rounded once per rank that adds to it: at every
// hop of a ring, and as often or less by MPI's own algorithms.
//
// Chosen by measurement (Open MPI 4.1, shared memory, 2 and 4 ranks, 4 KiB to
// 16 MiB). Rings send every block once along each link, so a link between two
// nodes carries it once, however many ranks a node has.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace hidup {

class MpiCollectives {
 public:
  // `max_piece`: elements that one MPI call may carry. Uses `group`, does not own it.
  MpiCollectives(MPI_Comm group, int64_t max_piece);
  ~MpiCollectives();
  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;

  // As in Communicator, but for two ranks or more, and at once. `doing`
  // ("all_gather of x") starts the text of an error.
  void all_reduce(void* data, int64_t count, DType dtype, const std::string& doing);
  void all_gather(const void* send, void* receive, const std::vector<int64_t>& counts, DType dtype,
                  const std::string& doing);
  void reduce_scatter(const void* send, void* receive, const std::vector<int64_t>& counts,
                      DType dtype, const std::string& doing);
  void all_to_all(const void* send, const std::vector<int64_t>& send_counts, void* receive,
                  const std::vector<int64_t>& receive_counts, DType dtype,
                  const std::string& doing);
  void broadcast(void* data, int64_t count, int root, DType dtype, const std::string& doing);
  void move(const void* send, void* receive, int64_t count, const std::vector<int>& sources,
            DType dtype, const std::string& doing);

 private:
  // MPI's name for the elements of a sum, and how it adds them.
  template <typename T>
  MPI_Datatype type_of() const;
  template <typename T>
  MPI_Op sum_op() const;
  template <typename T>
  void all_reduce_of(T* data, int64_t count, const std::string& doing);
  template <typename T>
  void reduce_scatter_of(const T* send, T* receive, const std::vector<int64_t>& counts,
                         const std::string& doing);
  template <typename T>
  void all_reduce_ring(T* data, int64_t count, const std::string& doing);
  // Sends to the right neighbour while it adds what it receives from the left one.
  template <typename T>
  void pass_and_add(const T* send, int64_t send_count, T* sum, int64_t sum_count,
                    const std::string& doing);
  // Begins to send everything to the right neighbour.
  template <typename T>
  std::vector<MPI_Request> send_chunks(const T* data, int64_t count, const std::string& doing);
  // Where a chunk lies of what was sent so, for as long as the call lasts.
  template <typename T>
  using TakeChunk = std::function<void(int64_t done, const T* part, int count)>;
  template <typename T>
  void receive_chunks(int64_t count, const std::string& doing, const TakeChunk<T>& take);
  void all_gather_ring(const void* send, void* receive, const std::vector<int64_t>& counts,
                       int64_t bytes, const std::string& doing);
  template <typename T>
  void reduce_to(int root, const T* send, T* receive, int64_t count, const std::string& doing);
  template <typename T>
  void reduce_scatter_ring(const T* send, T* receive, const std::vector<int64_t>& counts,
                           const std::string& doing);
  // Sends to the right neighbour while it receives from the left one. `bytes`: of an element.
  void pass_on(const void* send, int64_t send_count, void* receive, int64_t receive_count,
               int64_t bytes, const std::string& doing);
  // [4, chunk_]: two that come, two sums on their way
  template <typename T>
  T* partial() {
    return reinterpret_cast<T*>(partial_.get());
  }
  int left() const { return (rank_ + size_ - 1) % size_; }
  int right() const { return (rank_ + 1) % size_; }

  MPI_Comm group_;
  int64_t max_piece_;
  int64_t chunk_;                         // elements of a block that go round a ring at once
  std::unique_ptr<std::byte[]> partial_;  // see partial()
  MPI_Op sum_bf16_ = MPI_OP_NULL;
  MPI_Op sum_f16_ = MPI_OP_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hidup
