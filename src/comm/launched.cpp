#include "comm/launched.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <thread>

#include "core/log.h"

namespace hidup {
namespace {

// Time in which the launcher ends the other ranks.
constexpr std::chrono::seconds kWithdrawal{1};

int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Returns true if no other rank of the job has called this on the host. The caller takes a socket's
// name until its process ends; no file system stores that name.
bool is_first_of_host() {
  const char* job = std::getenv("PMIX_NAMESPACE");
  if (job == nullptr) {
    return true;
  }
  const std::string name = fmt::format("hidup-{}-ends", job);
  sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::copy_n(name.begin(), length, address.sun_path + 1);  // after a zero byte: an abstract name
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return descriptor < 0 ||
         bind(descriptor, reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length)) == 0 ||
         errno != EADDRINUSE;
}

}  // namespace

int launched_rank() {
  return number_of("OMPI_COMM_WORLD_RANK", number_of("PMIX_RANK", -1));
}

int launched_ranks() {
  return number_of("OMPI_COMM_WORLD_SIZE", number_of("SLURM_STEP_NUM_TASKS", 0));
}

void say_last_words(const std::string& message) {
  if (is_first_of_host()) {
    log::error(message);
  } else {
    std::this_thread::sleep_for(kWithdrawal);
  }
}

void end_without_mpi(ExitCode code, const std::string& message) {
  say_last_words(message);
  if (launched_ranks() > 1) {
    std::this_thread::sleep_for(kWithdrawal);
  }
  std::_Exit(static_cast<int>(code));
}

}  // namespace hidup
