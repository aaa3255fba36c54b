#include "races.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace cuda_shim {

void SharedMemory::Free::operator()(Byte* bytes) const {
  std::free(bytes);
}

SharedMemory::SharedMemory(size_t bytes, int warps)
    : bytes_(static_cast<Byte*>(std::calloc(bytes, sizeof(Byte)))),
      time_(static_cast<size_t>(warps), 1) {
  if (bytes_ == nullptr && bytes > 0) {
    throw std::bad_alloc();
  }
}

void SharedMemory::meet(int warp) {
  ++time_[static_cast<size_t>(warp)];
}

void SharedMemory::meet_all() {
  ++barrier_;
  for (uint32_t& time : time_) {
    ++time;
  }
}

std::optional<Race> SharedMemory::race_with_write(const Byte& byte, const Now& now,
                                                  bool atomic) const {
  const Write& write = byte.write;
  if (write.barrier != barrier_ || write.thread == now.thread || (atomic && write.atomic) ||
      (write.thread / warpSize == now.warp && write.time != now.time)) {
    return std::nullopt;
  }
  return Race{write.instruction, write.thread, true};
}

std::optional<Race> SharedMemory::race_with_reads(const Byte& byte, const Now& now) const {
  const Reads& reads = byte.reads;
  if (reads.barrier != barrier_) {
    return std::nullopt;
  }
  const uint32_t others = reads.warp == now.warp ? reads.lanes & ~now.lane : reads.lanes;
  if (reads.warp != now.warp || reads.several || (reads.time == now.time && others != 0)) {
    const int reader = reads.warp * warpSize + std::countr_zero(others);
    return Race{reads.instruction, others == 0 ? -1 : reader, false};
  }
  return std::nullopt;
}

void SharedMemory::remember_read(Byte& byte, const Now& now) const {
  Reads& reads = byte.reads;
  const bool same_warp = reads.barrier == barrier_ && reads.warp == now.warp;
  const bool several = reads.barrier == barrier_ && (reads.several || !same_warp);
  const uint32_t lanes = same_warp && reads.time == now.time ? reads.lanes : 0;
  reads = {now.instruction, barrier_, now.time, lanes | now.lane, static_cast<uint16_t>(now.warp),
           several};
}

std::optional<Race> SharedMemory::access(const void* instruction, size_t offset, int bytes,
                                         Access kind, int thread) {
  const int warp = thread / warpSize;
  const Now now{instruction, thread, warp, 1U << (thread % warpSize),
                time_[static_cast<size_t>(warp)]};
  std::optional<Race> race;
  for (size_t i = offset; i < offset + static_cast<size_t>(bytes); ++i) {
    Byte& byte = bytes_[i];
    if (!race) {
      race = race_with_write(byte, now, kind == Access::atomic);
    }
    if (kind == Access::read) {
      remember_read(byte, now);
      continue;
    }
    if (!race) {
      race = race_with_reads(byte, now);
    }
    byte.write = {instruction, barrier_, now.time, static_cast<uint16_t>(thread),
                  kind == Access::atomic};
  }
  return race;
}

}  // namespace cuda_shim
