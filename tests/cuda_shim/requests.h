// A warp's accesses to memory as requests, and the requests' cost.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "watch.h"

namespace cuda_shim {

// Requests to global memory: accesses of a warp's lanes by one instruction at a time.
struct GlobalCounts {
  int64_t requests = 0;
  int64_t sectors = 0;        // of 32 bytes, touched
  int64_t least_sectors = 0;  // that each request's bytes would fill
  int64_t bytes = 0;          // requested by lanes
  int64_t distinct = 0;       // bytes of memory that a launch touches, each once
};

// Requests to shared memory, which has 32 banks of 4 bytes. A wavefront reads or writes at most one
// word of each bank. Accesses of 8 and 16 bytes handle half and a quarter of a warp at a time.
struct SharedCounts {
  int64_t requests = 0;
  int64_t wavefronts = 0;
  int64_t least_wavefronts = 0;  // without bank conflicts
};

// Addresses by lane; 0: the lane does not take part.
using LaneAddresses = std::array<uintptr_t, 32>;

// Add one request of `bytes` bytes a lane (1, 2, 4, 8 or 16), to which the addresses are aligned. A
// word that several lanes read is one access.
void count_global(const LaneAddresses& addresses, int bytes, GlobalCounts& counts);
void count_shared(const LaneAddresses& addresses, int bytes, SharedCounts& counts);

enum class Space { global, shared };

// An instruction, or a part of one that accesses more than 16 bytes, in one kind of memory.
struct Site {
  uintptr_t instruction;
  int part;
  Space space;
  Access kind;
  int bytes;
  bool operator==(const Site&) const = default;
};

// Accesses of a block's warps since their lanes last met. The n-th accesses of all lanes at one
// site are one request.
class Requests {
 public:
  explicit Requests(int warps) : touched_(static_cast<size_t>(warps)) {}

  void add(const Site& site, int thread, uintptr_t address);

  // Calls function(site, addresses) for every request of the warp and removes them.
  template <typename Function>
  void take(int warp, Function function) {
    for (Pending* pending : touched_[static_cast<size_t>(warp)]) {
      for (const LaneAddresses& addresses : pending->requests) {
        function(pending->site, addresses);
      }
      pending->requests.clear();
      pending->count.fill(0);
    }
    touched_[static_cast<size_t>(warp)].clear();
  }

 private:
  struct Pending {
    Site site;
    std::vector<LaneAddresses> requests;
    std::array<uint32_t, 32> count{};  // per lane
  };

  struct Hash {
    size_t operator()(const Site& site) const;
  };
  using OfWarps = std::vector<Pending>;

  OfWarps& at(const Site& site);

  std::unordered_map<Site, OfWarps, Hash> sites_;
  std::vector<std::vector<Pending*>> touched_;           // by warp
  std::array<std::pair<Site, OfWarps*>, 256> recent_{};  // part of sites_, by hash
};

}  // namespace cuda_shim
