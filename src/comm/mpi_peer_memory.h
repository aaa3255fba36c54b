// Memory of each rank of a group that the others can access. For the sources of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace hidup {

class PeerMemory {
 public:
  // Collective over the group, whose ranks are on one host. Returns null where some rank's memory
  // maps no file, or cannot be mapped: the system may forbid it, or limit address space.
  static std::shared_ptr<PeerMemory> map(Communicator& group, Buffer& own);

  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Returns the offset of those bytes in this rank's memory, or -1 if they lie elsewhere.
  int64_t offset_of(const void* data, int64_t bytes) const;
  // Returns the address of an offset of a rank's memory, as mapped in this process.
  std::byte* at(int rank, int64_t offset) const {
    return parts_[static_cast<size_t>(rank)].data + offset;
  }

 private:
  struct Part {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  // Maps the other ranks' memory; returns false if the system refuses one mapping.
  struct Given;
  bool map_others(const std::vector<Given>& given);

  PeerMemory(int rank, Part own) : rank_(rank), own_(own) {}

  int rank_;
  Part own_;
  std::vector<Part> parts_;  // of every rank
};

}  // namespace hidup
