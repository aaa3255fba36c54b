// Collectives of one group of ranks behind one interface, so that the runtime
// knows neither MPI nor NCCL.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/collective_algorithm.h"
#include "core/dtype.h"
#include "device/device.h"

namespace hidup {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whether collectives are done by that algorithm where they have one. All ranks of the group ask
  // together, while it communicates nothing else; all have the same answer.
  virtual bool can_use(CollectiveAlgorithm algorithm) {
    return algorithm == CollectiveAlgorithm::automatic;
  }
  // Whether device collectives are tasks of the host in the stream, need its staging memory, and
  // cannot be recorded (Device::record()).
  virtual bool through_host() const { return true; }

  // Device collectives: in stream order, on the memory the stream's device
  // computes on. Every rank issues the same ones in the same order, all on one
  // stream at a time. `name` says what is communicated; an error names it. `dtype` is that of
  // the elements; sums are of floating ones. Counts are in elements, may be zero and may differ
  // between ranks; a count for every rank, in the order of ranks, or Error(internal).
  // `send` and `receive` may not overlap, but for a rank's own part where it says so. Repeated runs
  // give the same bits.
  //
  // `algorithm`, the same on all ranks, says how it is done. MPI does as it says; what a collective
  // has no such algorithm for, and `windows` where the group's ranks run on several hosts, is done
  // as `automatic`. Other back ends choose for themselves.

  // data: [count], replaced by its sum over all ranks; every rank gets the same bits. Elements of
  // 16 bits are added in f32 and rounded; a sum may be rounded as often as a summand is added.
  virtual void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                          CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // send: [counts[rank]]; receive: [sum of counts], what all ranks send, in the order
  // of ranks. `counts` is the same on all ranks. `send` may be its place in `receive`.
  virtual void all_gather(Stream& stream, const void* send, void* receive,
                          const std::vector<int64_t>& counts, DType dtype,
                          CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // send: [sum of counts]; receive: [counts[rank]], this rank's part of the sum
  // over all ranks. `counts` is the same on all ranks. `receive` may be its place in `send`.
  virtual void reduce_scatter(Stream& stream, const void* send, void* receive,
                              const std::vector<int64_t>& counts, DType dtype,
                              CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // send: [sum of send_counts], the pieces for every rank in the order of ranks;
  // receive: [sum of receive_counts], the pieces from every rank likewise. What rank a
  // sends to b is what b receives from a.
  virtual void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                          void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                          CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // data: [count], replaced by that of the rank `root`.
  virtual void broadcast(Stream& stream, void* data, int64_t count, int root, DType dtype,
                         const std::string& name) = 0;
  // receive: [count], what the rank sources[rank] sends; sources is the same on all ranks, and a
  // rank whose source is itself receives nothing. send: [count] of a rank that is another one's
  // source.
  virtual void move(Stream& stream, const void* send, void* receive, int64_t count,
                    const std::vector<int>& sources, DType dtype, const std::string& name) = 0;

  // Makes memory known that device collectives will use, until the result ends, before this group
  // and the memory do; all ranks of the group, each its own. Null where that makes no difference.
  // Through `windows` ranks of a host read what lies there where it is, if it is the mapping of a
  // file (Device::allocate_shared()).
  virtual std::shared_ptr<void> register_memory(Buffer&) { return nullptr; }

  // Host collectives: blocking, for small things outside the steps.

  virtual void barrier() = 0;
  // Rank 0's text on every rank.
  virtual std::string broadcast(const std::string& text) = 0;
  // Every rank's bytes, in the order of ranks, on every rank. All give the same number.
  virtual std::vector<std::byte> all_gather(std::span<const std::byte> mine) = 0;
  // Every rank's bytes, in the order of ranks, on rank 0; numbers may differ.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) = 0;
  // As the device's all_to_all, with bytes: `send` and `receive` have the pieces for and from every
  // rank in the order of ranks.
  virtual void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                        std::span<std::byte> receive,
                        const std::vector<int64_t>& receive_counts) = 0;
  // The ranks that give the same color, as a group of their own in the order that they
  // have here. All its ranks must end it, before MPI ends and in the same order
  // relative to other groups.
  virtual std::unique_ptr<Communicator> split(int64_t color) = 0;
  // Memory, zeroed, aligned to 64 bytes, that the ranks of this group have in common which run on
  // one host. All ask together for the same number of bytes, and all end it, as split()'s groups.
  // By default nobody else sees a rank's.
  virtual std::shared_ptr<std::byte> share_memory(int64_t bytes);
};

// Memory of this process, zeroed, aligned to 64 bytes.
std::shared_ptr<std::byte> zeroed_memory(int64_t bytes);

// One plain value of every rank, in the order of ranks, on every rank.
template <typename T>
std::vector<T> all_gather_value(Communicator& group, const T& mine) {
  const std::vector<std::byte> bytes = group.all_gather(std::as_bytes(std::span(&mine, 1)));
  std::vector<T> values(static_cast<size_t>(group.size()));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

// A group of one rank: for tests, and for commands that run without mpirun.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace hidup
