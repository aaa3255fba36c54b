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

#include "core/dtype.h"
#include "device/device.h"

namespace hidup {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Device collectives: in stream order, on the memory the stream's device
  // computes on. Every rank issues the same ones in the same order. `name` says
  // what is communicated; an error names it.

  // data: f32 [count], replaced by its sum over all ranks; every rank gets the same bits.
  virtual void all_reduce(Stream& stream, float* data, int64_t count, const std::string& name) = 0;

  // Host collectives: blocking, for small things outside the steps.

  virtual void barrier() = 0;
  // Rank 0's text on every rank.
  virtual std::string broadcast(const std::string& text) = 0;
  // Every rank's bytes, in the order of ranks, on every rank. All give the same number.
  virtual std::vector<std::byte> all_gather(std::span<const std::byte> mine) = 0;
  // Every rank's bytes, in the order of ranks, on rank 0; numbers may differ.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> mine) = 0;
};

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
