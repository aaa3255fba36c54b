// Collectives of the ranks of one host through shared memory. For the sources of this folder only.
//
// Data in memory that all ranks can access (PeerMemory) stays in place, and the other ranks read it
// there. Otherwise every rank has a part of shared memory. It copies the data that others need into
// its part, all ranks meet, and each reads the parts of the others. Long data takes several turns,
// so the memory has a bounded size. Turns alternate between the two halves of a part: a rank writes
// to one half while others may still read the other, so one meeting per turn is enough.
//
// Sums add the ranks in their order, so all algorithms here give the same bits.
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
  // Collective over the group, whose ranks are on one host (on_one_host()); so is destruction. Does
  // not own `group`. `max_piece`: elements that a rank copies at once.
  MpiWindows(MPI_Comm group, int64_t max_piece);

  // Register and unregister peer memory. All ranks call them together, outside of collectives.
  void add(const PeerMemory& memory) { memories_.push_back(&memory); }
  void remove(const PeerMemory& memory) { std::erase(memories_, &memory); }

  // Act as in Communicator, but block.
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

  // Returns the place of a rank's copies in a turn.
  std::byte* part(int rank, uint64_t turn) const;
  // Return the elements of a part, and of a piece of a part for one rank.
  int64_t part_length(int64_t bytes) const;
  int64_t piece_length(int64_t bytes) const;
  // Each rank sums up all elements. For few elements, where only the meeting takes time.
  void sum_all(void* data, int64_t count, const Elements& elements, const std::string& doing);
  // Each rank sums up a slice, which the others then copy.
  void sum_slices(void* data, int64_t count, const Elements& elements, const std::string& doing);
  // Returns the addresses of all ranks' data that correspond to this rank's, if all ranks can
  // access them, and nothing otherwise. Makes earlier writes of all ranks visible.
  std::vector<std::byte*> places(const void* data, int64_t count, int64_t bytes,
                                 const std::string& doing);
  // Each rank sums up a slice of the data at these places, and writes the sum to all of them.
  void sum_in_place(const std::vector<std::byte*>& places, int64_t count, const Elements& elements,
                    const std::string& doing);
  // Returns the memory of all ranks for a sum, with `own` as this rank's.
  std::vector<const void*> summands(const void* own, int64_t offset) const;
  // Blocks until all ranks have met as often as this one; makes their earlier writes visible.
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
  uint64_t turn_ = 0;  // the last turn that took place
};

}  // namespace hidup
