// Blocking device collectives on MPI. For the sources of this folder only.
//
// MPI-3 counts and displacements are ints, and a rank of an all_to_all knows only its own counts.
// So long data travels as messages between two ranks, which both know its length and cut it alike
// (mpi_messages.h); ranks need not agree on a number of rounds. Algorithms made of messages are in
// mpi_algorithms.h, algorithms in shared memory in mpi_windows.h.
//
// 16-bit elements are added in float. A sum is rounded once per rank that adds to it: at every hop
// of a ring, and as often or less by MPI's own algorithms.
//
// CollectiveAlgorithm::automatic follows measurements (Open MPI 4.1, shared memory, 2 and 4 ranks,
// 4 KiB to 16 MiB). Rings send every block once along each link, so a link between two nodes
// carries it once, however many ranks a node has.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/attendance.h"
#include "comm/elements.h"
#include "comm/mpi_messages.h"
#include "comm/mpi_windows.h"
#include "core/collective_algorithm.h"
#include "core/dtype.h"

namespace hidup {

// Returns the numbers of the ranks of a group among all ranks, in the group's order.
std::vector<int> world_ranks(MPI_Comm group);

class MpiCollectives {
 public:
  // `max_piece`: elements that one MPI call may carry. Uses `group`, does not own it. Construction
  // is collective, and so is destruction once `windows` were used.
  MpiCollectives(MPI_Comm group, int64_t max_piece);
  ~MpiCollectives();
  MpiCollectives(const MpiCollectives&) = delete;
  MpiCollectives& operator=(const MpiCollectives&) = delete;

  // Collective.
  bool can_use(CollectiveAlgorithm algorithm);

  // Makes `windows` use data of that memory in place, until the result is destroyed. All ranks call
  // it together. Returns null if `memory` is null.
  std::shared_ptr<void> use_in_place(const std::shared_ptr<PeerMemory>& memory);

  // Act as in Communicator, but block, for two or more ranks. `doing`: "all_gather of x".
  void all_reduce(void* data, int64_t count, DType dtype, CollectiveAlgorithm algorithm,
                  const std::string& doing);
  void all_gather(const void* send, void* receive, const std::vector<int64_t>& counts, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& doing);
  void reduce_scatter(const void* send, void* receive, const std::vector<int64_t>& counts,
                      DType dtype, CollectiveAlgorithm algorithm, const std::string& doing);
  void all_to_all(const void* send, const std::vector<int64_t>& send_counts, void* receive,
                  const std::vector<int64_t>& receive_counts, DType dtype,
                  CollectiveAlgorithm algorithm, const std::string& doing);
  void broadcast(void* data, int64_t count, int root, DType dtype, const std::string& doing);
  void move(const void* send, void* receive, int64_t count, const std::vector<int>& sources,
            DType dtype, const std::string& doing);

  // Returns the traffic of the algorithms made of messages: ring, halving, tree, pairwise, bruck.
  const Traffic& traffic() const { return messages_.traffic(); }

 private:
  // Return MPI's type of the elements of a sum, and the operation that adds them.
  MPI_Datatype type_of(DType dtype) const;
  MPI_Op sum_op(DType dtype) const;
  // Returns the windows of the group, made at the first call; null if it spans several hosts.
  MpiWindows* windows();
  // Runs that algorithm of the table. Returns false if the table lacks it or the group spans hosts.
  template <typename Table, typename... Arguments>
  bool run(const Table& table, CollectiveAlgorithm algorithm, const Arguments&... arguments);
  void all_reduce_as_best(void* data, int64_t count, DType dtype, const std::string& doing);
  void all_gather_as_best(const void* send, void* receive, const std::vector<int64_t>& counts,
                          int64_t bytes, const std::string& doing);
  void reduce_scatter_as_best(const void* send, void* receive, const std::vector<int64_t>& counts,
                              DType dtype, const std::string& doing);
  void all_to_all_as_best(const void* send, const std::vector<int64_t>& send_counts, void* receive,
                          const std::vector<int64_t>& receive_counts, int64_t bytes,
                          const std::string& doing);
  void reduce_to(int root, const void* send, void* receive, int64_t count, DType dtype,
                 const std::string& doing);

  MPI_Comm group_;
  Attendance attendance_;
  int64_t max_piece_;
  MpiMessages messages_;
  std::optional<bool> one_host_;  // empty until first needed
  std::optional<MpiWindows> windows_;
  MPI_Op sum_bf16_ = MPI_OP_NULL;
  MPI_Op sum_f16_ = MPI_OP_NULL;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hidup
