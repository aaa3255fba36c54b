#include "core/room.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/units.h"

namespace hidup {
namespace {

// Returns " (the limit is ...: ulimit -v)", or "" without a limit.
std::string address_space_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "";
  }
  return fmt::format(" (the limit is {}: ulimit -v)",
                     format_bytes(static_cast<int64_t>(limit.rlim_cur)));
}

}  // namespace

std::optional<int64_t> free_bytes(const std::string& folder) {
  struct statvfs status = {};
  if (statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(status.f_bavail * status.f_frsize);
}

void check_address_space(int64_t bytes, std::string_view what) {
  // A mapping without access takes address space, but no memory is promised for it.
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    const int reason = errno;
    fail(ExitCode::out_of_memory, "{} needs {} of address space, and the system refuses it: {}{}",
         what, format_bytes(bytes), std::strerror(reason), address_space_limit());
  }
  munmap(data, static_cast<size_t>(bytes));
}

void check_threads(int threads, std::string_view what) {
  std::latch all_asked(1);
  std::vector<std::thread> started;
  std::string refusal;
  try {
    started.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      started.emplace_back([&all_asked] { all_asked.wait(); });
    }
  } catch (const std::system_error& error) {
    refusal = error.code().message();
  }
  all_asked.count_down();
  for (std::thread& thread : started) {
    thread.join();
  }
  if (!refusal.empty()) {
    fail(ExitCode::out_of_memory, "{} needs {} threads, and the system gives {}: {}", what, threads,
         started.size(), refusal);
  }
}

}  // namespace hidup
