// Collectives of ranks of one host by way of memory that they share. For the sources of this folder
// only.
//
// Data that lie in memory which all ranks see (PeerMemory) stay there, and the others read them.
// Otherwise every rank has a part of memory that they share. It copies what others need into it,
// all meet, and read what they need in the parts of the others. What is long goes in turns, so the
// memory has a bounded size. Turns take the two halves of a part alternately: a rank writes to one
// while others may still read the other, so one meeting per turn is enough.
//
// Sums are of the ranks in their order, so all algorithms here give the same bits.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/elements.h"
#include "comm/mpi_peer_memory.h"

namespace hidup {

class MpiWindows {
 public:
  // Collective over the group, whose ranks are on one host (on_one_host()); so is the end. `group`
  // is not owned. `max_piece`: elements that a rank copies at once.
  MpiWindows(MPI_Comm group, int64_t max_piece);

  // Memory that stays until it is removed; all ranks together, and while nothing is communicated.
  void add(const PeerMemory& memory) { memories_.push_back(&memory); }
  void remove(const PeerMemory& memory) { std::erase(memories_, &memory); }

  // As in Communicator, at once.
  void all_reduce(void* data, int64_t count, const Elements& elements, const std::string& doing);
  void all_gather(const void* send, void* receive, const std::vector<int64_t>& counts,
                  int64_t bytes, const std::string& doing);
  void reduce_scatter(const void* send, void* receive, const std::vector<int64_t>& counts,
                      const Elements& elements, const std::string& doing);
  void all_to_all(const void* send, const std::vector<int64_t>& send_counts, void* receive,
                  const std::vector<int64_t>& receive_counts, int64_t bytes,
                  const std::string& doing);

 private:
  struct Line;

  // Where a rank's copies lie in a turn.
  std::byte* part(int rank, uint64_t turn) const;
  // Elements of a part, and of a piece of it for one rank.
  int64_t part_length(int64_t bytes) const;
  int64_t piece_length(int64_t bytes) const;
  // All sum up everything: for few elements, of which only the meeting takes time.
  void sum_all(void* data, int64_t count, const Elements& elements, const std::string& doing);
  // Each sums up a slice, which the others then copy.
  void sum_slices(void* data, int64_t count, const Elements& elements, const std::string& doing);
  // Where the data of every rank lie, of so many elements of this one's, if all see them: none
  // otherwise. What the ranks wrote before is to be seen.
  std::vector<std::byte*> places(const void* data, int64_t count, int64_t bytes,
                                 const std::string& doing);
  // Each sums up a slice of the data in such places, and writes it there.
  void sum_in_place(const std::vector<std::byte*>& places, int64_t count, const Elements& elements,
                    const std::string& doing);
  // The memory of all ranks for a sum, this one's own given.
  std::vector<const void*> summands(const void* own, int64_t offset) const;
  // Returns when all ranks have come as often as this one; what they wrote before is to be seen.
  void meet(const std::string& doing);
  bool all_came() const;

  MPI_Comm group_;
  int rank_ = 0;
  int size_ = 1;
  int64_t max_piece_;
  int64_t part_bytes_;
  std::shared_ptr<std::byte> memory_;
  Line* lines_ = nullptr;  // one per rank
  std::vector<const PeerMemory*> memories_;
  uint64_t meetings_ = 0;
  uint64_t turn_ = 0;  // the last that took place
};

}  // namespace hidup
