// Messages between the ranks of a group, of which collectives are made. For the sources of this
// folder and its tests.
//
// MPI's counts are ints, so what is long goes as several messages, which sender and receiver cut
// alike.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/elements.h"

namespace hidup {

// MPI's name for elements of 1, 2 or 4 bytes that are only moved, whatever they mean.
MPI_Datatype moved_type(int64_t bytes);

// Elements that lie one behind the other.
struct Run {
  void* data;
  int64_t count;
};

// What this rank did in collectives that are made of these messages.
struct Traffic {
  int64_t bytes = 0;  // sent
  int64_t steps = 0;  // in which it sent or received something; each waits for the one before
};

class MpiMessages {
 public:
  // `max_piece`: elements that one MPI call may carry. Uses `group`, does not own it.
  MpiMessages(MPI_Comm group, int64_t max_piece);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The rank that is `distance` further in the ring.
  int after(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }
  int64_t max_piece() const { return max_piece_; }
  // Elements of sums that are on their way at once.
  int64_t chunk() const { return chunk_; }
  // Room for a chunk that is sent on, 0 or 1; for whoever calls this.
  void* passing(int which) const { return buffer(2 + which); }
  const Traffic& traffic() const { return traffic_; }

  // One step each. What `to` receives has the runs of `sends`; `receives` has those that `from`
  // sends. A rank that sends or receives nothing gives any rank.

  void exchange(const std::vector<Run>& sends, int to, const std::vector<Run>& receives, int from,
                int64_t bytes, const std::string& doing);
  // Adds what comes to what is in `sums`. All that goes out is on its way at once; what comes in is
  // added while the next chunk comes.
  void exchange_and_add(const std::vector<Run>& sends, int to, const std::vector<Run>& sums,
                        int from, const Elements& elements, const std::string& doing);

  // The same in its parts. Begins to send in chunks; begins the step, too.
  std::vector<MPI_Request> send_chunks(const std::vector<Run>& sends, int to, int64_t bytes,
                                       const std::string& doing);
  // `part`: [into.count], what came for the place `into`, for as long as the call lasts.
  using TakeChunk = std::function<void(const Run& into, const void* part)>;
  void receive_chunks(const std::vector<Run>& places, int from, int64_t bytes,
                      const TakeChunk& take, const std::string& doing);
  static void wait_for(std::vector<MPI_Request>& requests, const std::string& doing);

 private:
  void send(const Run& run, int to, int tag, int64_t bytes, std::vector<MPI_Request>& requests,
            const std::string& doing);
  void receive(const Run& run, int from, int tag, int64_t bytes, MPI_Request& request,
               const std::string& doing);

  // Of a chunk: two for those that come, two for passing().
  void* buffer(int which) const {
    return at(buffers_.get(), which * chunk_, static_cast<int64_t>(sizeof(float)));
  }

  MPI_Comm group_;
  int64_t max_piece_;
  int64_t chunk_;
  std::unique_ptr<std::byte[]> buffers_;
  Traffic traffic_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hidup
