#include "comm/mpi_peer_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>

namespace hidup {
namespace {

bool address_space_is_limited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

// A rank's memory. `number` is the file's inode, by which another process recognizes it.
struct PeerMemory::Given {
  int64_t process = 0;
  int64_t file = -1;
  uint64_t number = 0;
  int64_t bytes = 0;
};

std::shared_ptr<PeerMemory> PeerMemory::map(Communicator& group, Buffer& own) {
  struct stat status {};
  Given mine{.process = getpid(), .bytes = own.bytes()};
  if (own.file() >= 0 && !address_space_is_limited() && fstat(own.file(), &status) == 0) {
    mine.file = own.file();
    mine.number = status.st_ino;
  }
  const std::vector<Given> given = all_gather_value(group, mine);
  if (std::ranges::any_of(given, [](const Given& each) { return each.file < 0; })) {
    return nullptr;
  }
  std::shared_ptr<PeerMemory> memory(new PeerMemory(group.rank(), {own.data(), own.bytes()}));
  const int mapped = memory->map_others(given) ? 1 : 0;
  return std::ranges::min(all_gather_value(group, mapped)) == 1 ? memory : nullptr;
}

bool PeerMemory::map_others(const std::vector<Given>& given) {
  for (const Given& each : given) {
    if (static_cast<int>(parts_.size()) == rank_) {
      parts_.push_back(own_);
      continue;
    }
    const std::string path =
        "/proc/" + std::to_string(each.process) + "/fd/" + std::to_string(each.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) {
      return false;
    }
    struct stat status {};
    void* data = MAP_FAILED;
    if (fstat(file, &status) == 0 && status.st_ino == each.number && status.st_size >= each.bytes) {
      data = mmap(nullptr, static_cast<size_t>(each.bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                  file, 0);
    }
    close(file);
    if (data == MAP_FAILED) {
      return false;
    }
    parts_.push_back({static_cast<std::byte*>(data), each.bytes});
  }
  return true;
}

PeerMemory::~PeerMemory() {
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    if (static_cast<int>(rank) != rank_) {
      munmap(parts_[rank].data, static_cast<size_t>(parts_[rank].bytes));
    }
  }
}

int64_t PeerMemory::offset_of(const void* data, int64_t bytes) const {
  const auto* const first = static_cast<const std::byte*>(data);
  const std::less<const std::byte*> before;
  const bool inside = !before(first, own_.data) && first - own_.data <= own_.bytes - bytes;
  return inside ? first - own_.data : -1;
}

}  // namespace hidup
