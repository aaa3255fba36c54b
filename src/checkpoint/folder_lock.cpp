#include "checkpoint/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/file.h"
#include "core/log.h"
#include "core/new_file.h"
#include "core/text.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kRenewal = 1s;
constexpr auto kPatience = 5s;  // longest time without a renewal
constexpr int64_t kLockBytes = 64 << 10;

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Returns the space of unique process numbers: the host since its start, and the container in it.
std::string process_space() {
  std::error_code ignored;
  return line_of("/proc/sys/kernel/random/boot_id") + " " +
         fs::read_symlink("/proc/self/ns/pid", ignored).string();
}

// Returns the start of the process in ticks since the host's start, which tells apart processes of
// the same number. Empty where it has ended.
std::string start_of(const std::string& process) {
  const std::string stat = line_of(fmt::format("/proc/{}/stat", process));
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string field;
  constexpr int kStart = 20;  // of the fields after the name, the first of which is the state
  for (int i = 1; i <= kStart && fields >> field; ++i) {
    if (i == 1 && (field == "Z" || field == "X")) {
      return "";
    }
  }
  return fields ? field : "";
}

// The content of a lock, by its keys; empty where there is none.
struct Owner {
  std::string text;
  std::map<std::string, std::string> facts;

  std::string name() {
    return fmt::format("process {} on {}, whose timing file is {}", shown(facts["process"]),
                       shown(facts["host"]), shown(facts["run"]));
  }
};

Owner owner_of(const std::string& path) {
  Owner owner;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    try {
      owner.text = read_text_file(path, "lock", kLockBytes);
    } catch (const Error&) {
      if (fs::exists(path, ignored)) {  // otherwise its owner removed it just now
        throw;
      }
    }
  }
  std::istringstream lines(owner.text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) {
      owner.facts[line.substr(0, colon)] = line.substr(colon + 2);
    }
  }
  return owner;
}

std::pair<time_t, long> time_of(const std::string& path) {
  // The file is opened, so that a network file system asks its server.
  struct stat status = {};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    fstat(file, &status);
    close(file);
  }
  return {status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

bool lives(const std::string& path, Owner& owner) {
  if (owner.facts["space"] == process_space()) {
    return start_of(owner.facts["process"]) == owner.facts["start"];
  }
  log::info("{}: is that of {}; this run waits up to {} s to see whether that one lives", path,
            owner.name(), kPatience.count());
  const auto seen = time_of(path);
  for (auto waited = 0ms; waited < kPatience; waited += 200ms) {
    std::this_thread::sleep_for(200ms);
    if (time_of(path) != seen) {
      return owner_of(path).text == owner.text;
    }
  }
  return false;
}

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return host;
}

}  // namespace

FolderLock::FolderLock(std::string folder, std::string run)
    : folder_(std::move(folder)), path_((fs::path(folder_) / "lock").string()) {
  const std::string process = std::to_string(getpid());
  text_ = fmt::format("host: {}\nprocess: {}\nstart: {}\nspace: {}\nrun: {}\n", host_name(),
                      process, start_of(process), process_space(), run);
  std::error_code ignored;
  created_ = !fs::exists(folder_, ignored);
  take();
  keeper_ = std::jthread([this](const std::stop_token& stop) { keep_fresh(stop); });
}

FolderLock::~FolderLock() {
  keeper_ = {};  // stops and joins
  std::error_code ignored;
  try {
    if (owner_of(path_).text == text_) {
      fs::remove(path_, ignored);
    }
  } catch (const Error&) {  // the lock cannot be read: the next run says so
  }
  if (created_) {
    fs::remove(folder_, ignored);  // leaves a folder that has files
  }
}

void FolderLock::take() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    fail(ExitCode::file, "{}: cannot create the folder: {}", folder_,
         lower_case_start(error.message()));
  }
  Owner owner = owner_of(path_);
  if (!owner.text.empty()) {
    if (lives(path_, owner)) {
      fail(ExitCode::file,
           "{}: another run writes its checkpoints there: {}. Give this run a "
           "train.checkpoint.folder of its own, or wait until that one ends",
           folder_, owner.name());
    }
    log::info("{}: the lock of {} is removed, as that run has ended", folder_, owner.name());
    fs::remove(path_, error);
  }
  write_text_file(path_, text_, false);
}

void FolderLock::renew() {
  Owner owner = owner_of(path_);
  if (owner.text.empty()) {
    log::warning("{}: was deleted; the folder is made again", folder_);
    take();
  } else if (owner.text != text_) {
    fail(ExitCode::file, "{}: was taken by another run: {}", folder_, owner.name());
  }
}

void FolderLock::keep_fresh(const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    never.wait_for(lock, stop, kRenewal, [] { return false; });
    utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
  }
}

}  // namespace hidup
