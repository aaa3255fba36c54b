// Memory of a rank that all ranks of a test see, used by vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "comm/mpi_collectives.h"
#include "comm/mpi_peer_memory.h"
#include "device/device.h"

namespace hidup {

// While an instance lives, Values of this rank lie in its memory.
class SeenMemory {
 public:
  SeenMemory(MpiCollectives& collectives, Communicator& world)
      : device_(make_device({})),
        memory_(device_->allocate_shared(kBytes)),
        used_(collectives.use_in_place(PeerMemory::map(world, *memory_))) {
    current() = this;
  }
  ~SeenMemory() { current() = nullptr; }
  SeenMemory(const SeenMemory&) = delete;
  SeenMemory& operator=(const SeenMemory&) = delete;

  // Returns true where the system lets ranks see each other's memory.
  bool is_seen() const { return used_ != nullptr; }
  // Returns the next bytes, from the start again after the end: few values live at a time.
  std::byte* take(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    next_ = next_ + rounded <= kBytes ? next_ : 0;
    next_ += rounded;
    return memory_->data() + next_ - rounded;
  }
  bool has(const void* data) const {
    return data >= memory_->data() && data < memory_->data() + kBytes;
  }

  static SeenMemory*& current() {
    static SeenMemory* memory = nullptr;
    return memory;
  }

 private:
  static constexpr size_t kBytes = size_t{64} << 20;

  std::unique_ptr<Device> device_;
  std::unique_ptr<Buffer> memory_;
  std::shared_ptr<void> used_;
  size_t next_ = 0;
};

template <typename T>
struct SeenAllocator {
  using value_type = T;

  SeenAllocator() = default;
  template <typename Other>
  explicit SeenAllocator(const SeenAllocator<Other>&) {}

  T* allocate(size_t count) {
    SeenMemory* memory = SeenMemory::current();
    return static_cast<T*>(memory != nullptr ? memory->take(count * sizeof(T))
                                             : ::operator new(count * sizeof(T)));
  }
  void deallocate(T* data, size_t) {
    if (SeenMemory::current() == nullptr || !SeenMemory::current()->has(data)) {
      ::operator delete(data);
    }
  }
  bool operator==(const SeenAllocator&) const = default;
};

template <typename T>
using Values = std::vector<T, SeenAllocator<T>>;

}  // namespace hidup
