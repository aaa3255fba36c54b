// Races in shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "watch.h"

namespace cuda_shim {

// An earlier access that no synchronization orders before the present one.
struct Race {
  const void* instruction;
  int thread;  // -1: one of another warp
  bool wrote;
};

// Tracks who last wrote and read each byte of a block's shared memory. Two accesses of a byte by
// two threads, of which one writes, are a race unless a barrier separates them, or a __syncwarp
// within a warp. Shuffles and votes order nothing, nor do atomics, which do not race with each
// other. (A __syncwarp of a part of a warp counts as one of the whole warp.)
class SharedMemory {
 public:
  SharedMemory(size_t bytes, int warps);

  // Returns the first race of the access and records the access. `offset`: its first byte.
  std::optional<Race> access(const void* instruction, size_t offset, int bytes, Access kind,
                             int thread);
  void meet(int warp);
  void meet_all();

 private:
  // Times count a warp's meetings; barriers count the block's. 0: never.
  struct Write {
    const void* instruction;
    uint32_t barrier;
    uint32_t time;
    uint16_t thread;
    bool atomic;
  };
  // The reads since the last barrier by the warp that read last.
  struct Reads {
    const void* instruction;
    uint32_t barrier;
    uint32_t time;
    uint32_t lanes;  // that read at that time
    uint16_t warp;
    bool several;  // more than one warp read
  };
  struct Byte {
    Write write;
    Reads reads;
  };
  struct Now {
    const void* instruction;
    int thread;
    int warp;
    uint32_t lane;  // the thread's bit
    uint32_t time;
  };

  std::optional<Race> race_with_write(const Byte& byte, const Now& now, bool atomic) const;
  std::optional<Race> race_with_reads(const Byte& byte, const Now& now) const;
  void remember_read(Byte& byte, const Now& now) const;

  struct Free {
    void operator()(Byte* bytes) const;
  };
  std::unique_ptr<Byte[], Free> bytes_;  // pages that no kernel touches stay unused
  std::vector<uint32_t> time_;           // of each warp
  uint32_t barrier_ = 1;
};

}  // namespace cuda_shim
