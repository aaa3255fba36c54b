#include "comm/local_watch.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/launched.h"
#include "core/check.h"
#include "device/device.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

constexpr double kLocalLookPeriod = 0.5;
constexpr double kStopPatience = 4.0;  // seconds that a rank may be stopped

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the children of this process's parent, including this process. They are the host's ranks
// where the launcher started them directly.
std::vector<int> siblings() {
  std::vector<int> found;
  std::error_code error;
  for (const fs::directory_entry& task :
       fs::directory_iterator(fmt::format("/proc/{}/task", getppid()), error)) {
    std::istringstream children(read_file(task.path() / "children"));
    for (int process = 0; children >> process;) {
      found.push_back(process);
    }
  }
  return found;
}

bool is_stopped(int process) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", process));
  const size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.size() > name_end + 2 && stat[name_end + 2] == 'T';
}

// Returns the variable's value for the process, or "" where there is none.
std::string environment_of(int process, std::string_view variable) {
  std::istringstream entries(read_file(fmt::format("/proc/{}/environ", process)));
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (entry.starts_with(variable) && entry.substr(variable.size()).starts_with('=')) {
      return entry.substr(variable.size() + 1);
    }
  }
  return "";
}

// Returns the processes of this job's ranks on the host by rank, from their PMIx variables.
std::map<int, int> ranks_of_this_host() {
  std::map<int, int> ranks;
  const char* job = std::getenv("PMIX_NAMESPACE");
  if (job != nullptr) {
    for (const int process : siblings()) {
      const std::string rank = environment_of(process, "PMIX_RANK");
      if (!rank.empty() && environment_of(process, "PMIX_NAMESPACE") == job) {
        ranks[std::atoi(rank.c_str())] = process;
      }
    }
  }
  return ranks;
}

}  // namespace

LocalWatch::LocalWatch(std::string doing, double limit_s)
    : doing_(std::move(doing)), limit_(limit_s), thread_([this] { run(); }) {}

LocalWatch::~LocalWatch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool LocalWatch::wait(double seconds) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                            [this] { return ended_; });
}

void LocalWatch::run() {
  const double began = monotonic_seconds();
  double looked = began;
  std::map<int, double> stopped;  // rank -> time at which it was first seen stopped
  while (wait(kLocalLookPeriod)) {
    const double now = monotonic_seconds();
    if (now - looked > 4 * kLocalLookPeriod) {
      stopped.clear();  // this process and the others were stopped together
    }
    looked = now;
    std::map<int, double> still;
    const std::map<int, int> ranks = ranks_of_this_host();
    for (const auto& [rank, process] : ranks) {
      if (is_stopped(process)) {
        still[rank] = stopped.contains(rank) ? stopped[rank] : now;
      }
    }
    stopped = std::move(still);
    const auto lost = std::ranges::find_if(
        stopped, [now](const auto& entry) { return now - entry.second > kStopPatience; });
    if (lost != stopped.end()) {
      end_without_mpi(ExitCode::communication,
                      fmt::format("rank {} is stopped (process {}) while {}", lost->first,
                                  ranks.at(lost->first), doing_));
    }
    if (now - began > limit_) {
      end_without_mpi(
          ExitCode::communication,
          fmt::format("{} for {:.0f} s already: a rank or a host does not answer", doing_, limit_));
    }
  }
}

}  // namespace hidup
