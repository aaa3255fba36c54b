// Messages that collectives are made of. For the sources of this folder and its tests.
//
// MPI's counts are ints, so long data travels as several messages, which both sides cut alike.
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

// Returns MPI's type for elements of 1, 2 or 4 bytes that are only moved, whatever their meaning.
MPI_Datatype moved_type(int64_t bytes);

// Contiguous elements.
struct Run {
  void* data;
  int64_t count;
};

// The traffic of this rank in collectives that are made of these messages.
struct Traffic {
  int64_t bytes = 0;  // sent
  int64_t steps = 0;  // steps with a message sent or received; each waits for the one before
};

class MpiMessages {
 public:
  // `max_piece`: elements that one MPI call may carry. Uses `group`, does not own it.
  MpiMessages(MPI_Comm group, int64_t max_piece);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Returns the rank that is `distance` further in the ring.
  int after(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }
  int64_t max_piece() const { return max_piece_; }
  // Returns the elements of a sum that travel in one message.
  int64_t chunk() const { return chunk_; }
  // Returns one of two buffers (0 or 1) for a chunk that the caller forwards.
  void* relay(int which) const { return buffer(2 + which); }
  const Traffic& traffic() const { return traffic_; }

  // Takes one step. Sends the runs of `sends` to `to`, which receives them all, and fills
  // `receives` with the data that `from` sends. A rank that sends or receives nothing may give any.

  void exchange(const std::vector<Run>& sends, int to, const std::vector<Run>& receives, int from,
                int64_t bytes, const std::string& doing);
  // Adds received elements to those in `sums`. All chunks to send are in flight at once; a received
  // chunk is added while the next one arrives.
  void exchange_and_add(const std::vector<Run>& sends, int to, const std::vector<Run>& sums,
                        int from, const Elements& elements, const std::string& doing);

  // Does the same in two parts. Begins the step and starts to send in chunks.
  std::vector<MPI_Request> send_chunks(const std::vector<Run>& sends, int to, int64_t bytes,
                                       const std::string& doing);
  // `part`: [into.count], the elements received for the place `into`; valid during the call.
  using TakeChunk = std::function<void(const Run& into, const void* part)>;
  void receive_chunks(const std::vector<Run>& places, int from, int64_t bytes,
                      const TakeChunk& take, const std::string& doing);
  static void wait_for(std::vector<MPI_Request>& requests, const std::string& doing);

 private:
  void send(const Run& run, int to, int tag, int64_t bytes, std::vector<MPI_Request>& requests,
            const std::string& doing);
  void receive(const Run& run, int from, int tag, int64_t bytes, MPI_Request& request,
               const std::string& doing);

  // Returns a buffer of one chunk: two receive chunks, two are for relay().
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
