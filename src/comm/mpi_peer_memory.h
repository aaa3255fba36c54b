// Memory of each rank of a group, which the other ranks see. For the sources of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

class PeerMemory {
 public:
  // Collective over the group, whose ranks are on one host. Null where some rank's memory is no
  // mapping of a file, or cannot be mapped: the system may forbid it, or limit address space.
  static std::shared_ptr<PeerMemory> map(Communicator& group, Buffer& own);

  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Where in this rank's memory so many bytes lie; -1: elsewhere.
  int64_t offset_of(const void* data, int64_t bytes) const;
  // Of a rank's memory, as it lies here.
  std::byte* at(int rank, int64_t offset) const {
    return parts_[static_cast<size_t>(rank)].data + offset;
  }

 private:
  struct Part {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  // Maps the others' memory; false where one is refused.
  struct Given;
  bool map_others(const std::vector<Given>& given);

  PeerMemory(int rank, Part own) : rank_(rank), own_(own) {}

  int rank_;
  Part own_;
  std::vector<Part> parts_;  // of every rank
};

}  // namespace hidup
