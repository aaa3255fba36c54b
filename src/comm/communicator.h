// Collectives of a group of ranks; the interface hides MPI and NCCL from the runtime.
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
  // Returns true if collectives that have this algorithm can use it. All ranks of the group call
  // this together, while the group communicates nothing else, and get the same answer.
  virtual bool can_use(CollectiveAlgorithm algorithm) {
    return algorithm == CollectiveAlgorithm::automatic;
  }
  // Returns true if device collectives are host tasks in the stream. Such collectives need the
  // stream's staging memory and cannot be recorded (Device::record()).
  virtual bool through_host() const { return true; }

  // Device collectives. They run in stream order, on memory of the stream's device. Every rank
  // issues the same ones in the same order, all on one stream at a time. `name` names the
  // communicated data in errors. `dtype` is the type of the elements; sums take floating-point
  // types only. Counts are in elements, may be zero and may differ between ranks. Counts per rank
  // are in rank order; a wrong number of them is an Error(internal). `send` and `receive` may not
  // overlap, except for a rank's own part where the function says so. Repeated runs are
  // bit-identical.
  //
  // `algorithm` is the same on all ranks. MPI uses that algorithm; it falls back to `automatic`
  // where the collective lacks it, and for `windows` where the group spans several hosts. Other
  // back ends choose for themselves.

  // data: [count], replaced by its sum over all ranks; every rank gets the same bits. 16-bit
  // elements are added in f32 and rounded, up to once per summand.
  virtual void all_reduce(Stream& stream, void* data, int64_t count, DType dtype,
                          CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // send: [counts[rank]]; receive: [sum of counts], the data of all ranks in rank order. `counts`
  // is the same on all ranks. `send` may be its place in `receive`.
  virtual void all_gather(Stream& stream, const void* send, void* receive,
                          const std::vector<int64_t>& counts, DType dtype,
                          CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // send: [sum of counts]; receive: [counts[rank]], this rank's part of the sum over all ranks.
  // `counts` is the same on all ranks. `receive` may be its place in `send`.
  virtual void reduce_scatter(Stream& stream, const void* send, void* receive,
                              const std::vector<int64_t>& counts, DType dtype,
                              CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // send: [sum of send_counts], the pieces for the ranks in rank order; receive: [sum of
  // receive_counts], the pieces from the ranks likewise. send_counts[b] on a equals
  // receive_counts[a] on b.
  virtual void all_to_all(Stream& stream, const void* send, const std::vector<int64_t>& send_counts,
                          void* receive, const std::vector<int64_t>& receive_counts, DType dtype,
                          CollectiveAlgorithm algorithm, const std::string& name) = 0;
  // data: [count], replaced by the data of the rank `root`.
  virtual void broadcast(Stream& stream, void* data, int64_t count, int root, DType dtype,
                         const std::string& name) = 0;
  // receive: [count], the data that the rank sources[rank] sends. `sources` is the same on all
  // ranks; a rank that is its own source receives nothing. send: [count] on a rank that is
  // another's source.
  virtual void move(Stream& stream, const void* send, void* receive, int64_t count,
                    const std::vector<int>& sources, DType dtype, const std::string& name) = 0;

  // Registers memory that device collectives will use until the result is destroyed, which must
  // precede the end of the group and of the memory. All ranks of the group call it, each for its
  // own memory. Returns null where registration makes no difference. With `windows`, ranks of a
  // host read registered memory in place if it maps a file (Device::allocate_shared()).
  virtual std::shared_ptr<void> register_memory(Buffer&) { return nullptr; }

  // Host collectives. They block, and carry small data outside the steps.

  virtual void barrier() = 0;
  // Returns rank 0's text on every rank.
  virtual std::string broadcast(const std::string& text) = 0;
  // Returns the bytes of all ranks in rank order, on every rank. All ranks give the same number.
  virtual std::vector<std::byte> all_gather(std::span<const std::byte> mine) = 0;
  // Returns the bytes of all ranks in rank order, on rank 0; numbers may differ.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) = 0;
  // Does the device's all_to_all with bytes. `send`, `receive`: pieces for and from ranks in order.
  virtual void exchange(std::span<const std::byte> send, const std::vector<int64_t>& send_counts,
                        std::span<std::byte> receive,
                        const std::vector<int64_t>& receive_counts) = 0;
  // Returns a group of the ranks that give the same color, in their order in this group. All its
  // ranks must destroy it, before MPI ends and in the same order relative to other groups.
  virtual std::unique_ptr<Communicator> split(int64_t color) = 0;
  // Returns zeroed memory, aligned to 64 bytes, that the ranks of this group on one host share. All
  // ranks call it together with the same number of bytes, and destroy the memory like groups of
  // split(). The default returns memory of this rank alone.
  virtual std::shared_ptr<std::byte> share_memory(int64_t bytes);
};

// Returns zeroed memory of this process, aligned to 64 bytes.
std::shared_ptr<std::byte> zeroed_memory(int64_t bytes);

// Returns one plain value of every rank in rank order, on every rank.
template <typename T>
std::vector<T> all_gather_value(Communicator& group, const T& mine) {
  const std::vector<std::byte> bytes = group.all_gather(std::as_bytes(std::span(&mine, 1)));
  std::vector<T> values(static_cast<size_t>(group.size()));
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(values)).begin());
  return values;
}

// Returns a group of one rank, for tests and for commands that run without mpirun.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace hidup
