#include "counters.h"

#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "cuda_shim/device_code.h"
#include "footprint.h"
#include "races.h"
#include "watch.h"

namespace cuda_shim {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<KernelCounts> counts;
};

// The registry is never destroyed, because threads may outlive main().
Registry& registry() {
  static auto* all = new Registry;
  return *all;
}

void add(GlobalCounts& to, const GlobalCounts& more) {
  to.requests += more.requests;
  to.sectors += more.sectors;
  to.least_sectors += more.least_sectors;
  to.bytes += more.bytes;
  to.distinct += more.distinct;
}

void add(KernelCounts& to, const KernelCounts& more) {
  to.launches += more.launches;
  add(to.read, more.read);
  add(to.written, more.written);
  to.shared.requests += more.shared.requests;
  to.shared.wavefronts += more.shared.wavefronts;
  to.shared.least_wavefronts += more.shared.least_wavefronts;
}

// Returns the bytes of the program's thread_local variables, which lie right below the thread
// pointer (ELF handling for thread-local storage, variant II).
size_t thread_local_bytes() {
  size_t bytes = 0;
  const auto read = [](dl_phdr_info* info, size_t, void* result) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_TLS) {
        *static_cast<size_t*>(result) =
            (segment.p_memsz + segment.p_align - 1) / segment.p_align * segment.p_align;
      }
    }
    return 1;  // the program is the first of all objects
  };
  dl_iterate_phdr(read, &bytes);
  return bytes;
}

uintptr_t thread_pointer() {
  uintptr_t pointer = 0;
  asm("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

struct Bytes {
  uintptr_t begin = 0;
  uintptr_t size = 0;
  bool holds(uintptr_t address) const { return address - begin < size; }
};

template <typename T>
Bytes bytes_of(const T& object) {
  return {reinterpret_cast<uintptr_t>(&object), sizeof(object)};
}

class Counter final : public Watch {
 public:
  Counter(const KernelLaunch& launch, const std::byte* dynamic);

  void access(const void* instruction, const void* data, int bytes, Access kind, int part) override;
  void land(const void* instruction, const void* to, int bytes) override;
  void meet(int warp, unsigned mask, bool orders) override;
  void meet_all() override;
  void end() override;

 private:
  // Returns the offset of an address in shared memory, static variables first; -1 outside.
  int64_t shared_offset(uintptr_t address) const;
  void check_race(const void* instruction, int64_t offset, int bytes, Access kind);
  void count(int warp);
  [[noreturn]] void stop(const std::string& what, const void* instruction);

  const void* kernel_;
  int threads_;
  int warps_;
  Bytes static_;   // this OS thread's __shared__ variables, among others
  Bytes dynamic_;  // shared memory
  Bytes builtin_[4];
  Footprint footprint_;
  SharedMemory shared_;
  Requests requests_;
  KernelCounts counts_;
};

Counter::Counter(const KernelLaunch& launch, const std::byte* dynamic)
    : kernel_(launch.kernel),
      threads_(static_cast<int>(launch.block.x * launch.block.y * launch.block.z)),
      warps_((threads_ + warpSize - 1) / warpSize),
      static_{thread_pointer() - thread_local_bytes(), thread_local_bytes()},
      dynamic_{reinterpret_cast<uintptr_t>(dynamic), launch.dynamic_bytes},
      builtin_{bytes_of(threadIdx), bytes_of(blockIdx), bytes_of(blockDim), bytes_of(gridDim)},
      footprint_(device_ranges()),
      shared_(static_.size + dynamic_.size, warps_),
      requests_(warps_) {}

int64_t Counter::shared_offset(uintptr_t address) const {
  if (static_.holds(address)) {
    const bool builtin = std::ranges::any_of(
        builtin_, [address](const Bytes& bytes) { return bytes.holds(address); });
    return builtin ? -1 : static_cast<int64_t>(address - static_.begin);
  }
  return dynamic_.holds(address) ? static_cast<int64_t>(static_.size + address - dynamic_.begin)
                                 : -1;
}

void Counter::access(const void* instruction, const void* data, int bytes, Access kind, int part) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const bool aligned = address % static_cast<uintptr_t>(bytes) == 0;
  const int64_t offset = shared_offset(address);
  if (offset < 0 && !footprint_.holds(address)) {
    return;
  }
  if (!aligned) {
    stop(fmt::format("accesses {} bytes at an address that is no multiple of {}", bytes, bytes),
         instruction);
  }
  const Space space = offset < 0 ? Space::global : Space::shared;
  if (space == Space::shared) {
    check_race(instruction, offset, bytes, kind);
  } else {
    footprint_.touch(address, bytes, kind);
  }
  requests_.add({reinterpret_cast<uintptr_t>(instruction), part, space, kind, bytes}, thread,
                address);
}

void Counter::land(const void* instruction, const void* to, int bytes) {
  const int64_t offset = shared_offset(reinterpret_cast<uintptr_t>(to));
  if (offset >= 0) {
    check_race(instruction, offset, bytes, Access::write);
  }
}

void Counter::check_race(const void* instruction, int64_t offset, int bytes, Access kind) {
  const auto race = shared_.access(instruction, static_cast<size_t>(offset), bytes, kind, thread);
  if (!race) {
    return;
  }
  const CodePlace place = places_of({race->instruction})[0];
  stop(fmt::format("{} shared memory that {} {} at {}:{}, with no barrier between",
                   kind == Access::read ? "reads" : "writes",
                   race->thread < 0 ? "another warp" : name_of_thread(race->thread),
                   race->wrote ? "wrote" : "read", place.file, place.line),
       instruction);
}

void Counter::stop(const std::string& what, const void* instruction) {
  const std::vector<CodePlace> places = places_of({kernel_, instruction});
  stop_kernel(fmt::format("{}: at {}:{}, {} {}", places[0].function, places[1].file, places[1].line,
                          name_of_thread(thread), what));
}

// An atomic operation on device memory counts as a request to read and one to write.
void Counter::count(int warp) {
  requests_.take(warp, [this](const Site& site, const LaneAddresses& addresses) {
    if (site.space == Space::shared) {
      count_shared(addresses, site.bytes, counts_.shared);
      return;
    }
    if (site.kind != Access::write) {
      count_global(addresses, site.bytes, counts_.read);
    }
    if (site.kind != Access::read) {
      count_global(addresses, site.bytes, counts_.written);
    }
  });
}

// Lanes continue together after they met, so their accesses are counted anew.
void Counter::meet(int warp, unsigned mask, bool orders) {
  const int lanes = std::min(warpSize, threads_ - warp * warpSize);
  const unsigned all = lanes == warpSize ? ~0U : (1U << lanes) - 1U;
  if ((mask & all) == all) {
    count(warp);
  }
  if (orders) {
    shared_.meet(warp);
  }
}

void Counter::meet_all() {
  for (int warp = 0; warp < warps_; ++warp) {
    count(warp);
  }
  shared_.meet_all();
}

void Counter::end() {
  counts_.kernel = kernel_;
  counts_.launches = 1;
  counts_.read.distinct = footprint_.bytes(false);
  counts_.written.distinct = footprint_.bytes(true);
  const std::lock_guard lock(registry().mutex);
  auto& all = registry().counts;
  const auto known = std::ranges::find(all, kernel_, &KernelCounts::kernel);
  if (known == all.end()) {
    all.push_back(counts_);
  } else {
    add(*known, counts_);
  }
}

[[maybe_unused]] const bool registered = [] {
  watch_kernels([](const KernelLaunch& launch, const std::byte* dynamic) -> std::unique_ptr<Watch> {
    return std::make_unique<Counter>(launch, dynamic);
  });
  return true;
}();

}  // namespace

std::vector<KernelCounts> take_counts() {
  const std::lock_guard lock(registry().mutex);
  return std::exchange(registry().counts, {});
}

}  // namespace cuda_shim
