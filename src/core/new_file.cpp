#include "core/new_file.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "core/text.h"

namespace hidup {

namespace fs = std::filesystem;

std::string follow_links(const std::string& path) {
  constexpr int kMostLinks = 40;  // the limit of Linux
  fs::path name = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(fs::symlink_status(name, error)); ++links) {
    const fs::path target = fs::read_symlink(name, error);
    if (error || links == kMostLinks) {
      fail(ExitCode::file, "{}: cannot follow the link: {}", path,
           std::strerror(error ? error.value() : ELOOP));
    }
    name = name.parent_path() / target;  // `target` alone where it is absolute
  }
  return name;
}

namespace {

std::string reason(int error) {
  return lower_case_start(std::strerror(error));
}

bool is_same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// Creates a file under a name that no other process takes. Skips names that killed runs left.
int create_beside(const std::string& place, std::string& location) {
  const fs::path wanted = place;
  // The stem is short enough for any file system.
  const std::string stem = wanted.filename().string().substr(0, 200);
  for (int attempt = 0;; ++attempt) {
    location = wanted.parent_path() / fmt::format("{}.part-{}-{}", stem, getpid(), attempt);
    const int descriptor = open(location.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) {
      return descriptor;
    }
  }
}

// Flushes a new name in a folder to the disk, where the file system can and the folder is readable.
void flush_folder(const fs::path& folder, const std::string& name) {
  const int descriptor =
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool failed = descriptor >= 0 && fsync(descriptor) != 0;
  const int error = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  if (failed && error != EINVAL && error != ENOTSUP) {
    fail(ExitCode::file, "{}: cannot write to its folder: {}", name, reason(error));
  }
}

// Renames a file unless the new name exists, also on file systems without RENAME_NOREPLACE.
int rename_to_free_name(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) {
    return 0;
  }
  if ((errno != EINVAL && errno != ENOSYS) || link(from.c_str(), to.c_str()) != 0) {
    return -1;
  }
  return unlink(from.c_str());
}

}  // namespace

NewFile::NewFile(const std::string& path) : name_(path), place_(follow_links(path)) {
  descriptor_ = create_beside(place_, location_);
  if (descriptor_ < 0) {
    fail(ExitCode::file, "{}: cannot create the file: {}", name_, reason(errno));
  }
}

NewFile::~NewFile() {
  if (location_ != place_) {
    unlink(location_.c_str());
  }
  close(descriptor_);
}

void NewFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      fail(ExitCode::file, "{}: cannot write: {}", name_, reason(errno));
    }
    text.remove_prefix(count < 0 ? 0 : static_cast<size_t>(count));
  }
}

void NewFile::flush() const {
  // Some file systems cannot flush a file, which is no error.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) {
    fail(ExitCode::file, "{}: cannot write: {}", name_, reason(errno));
  }
}

void NewFile::take_name(bool overwrite) {
  flush();
  const int renamed = overwrite ? std::rename(location_.c_str(), place_.c_str())
                                : rename_to_free_name(location_, place_);
  if (renamed != 0) {
    fail(ExitCode::file, "{}: cannot {} the file: {}", name_, overwrite ? "replace" : "create",
         reason(errno));
  }
  location_ = place_;
  flush_folder(fs::path(place_).parent_path(), name_);
}

void NewFile::check_name() const {
  struct stat own = {};
  struct stat named = {};
  const bool taken = stat(place_.c_str(), &named) == 0;
  if (fstat(descriptor_, &own) != 0 || (taken && is_same_file(own, named))) {
    return;
  }
  std::string left;
  try {
    left = own.st_nlink > 0 ? present_name() : keep_copy();
  } catch (const Error& error) {
    left = fmt::format("lost ({})", error.what());
  }
  fail(ExitCode::file, "{}: was {} during the run; what the run wrote is {}", name_,
       taken ? "replaced by another file" : "deleted or moved", left);
}

std::string NewFile::present_name() const {
  std::error_code error;
  const fs::path now = fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor_), error);
  return error ? "elsewhere" : "in " + now.string();
}

std::string NewFile::keep_copy() const {
  std::string name = name_ + ".kept";
  for (int number = 2; fs::exists(fs::path(name)); ++number) {
    name = fmt::format("{}.kept-{}", name_, number);
  }
  NewFile copy(name);
  off_t at = 0;
  ssize_t count = 1;
  while (count > 0 || (count < 0 && errno == EINTR)) {
    constexpr size_t kAtOnce = size_t{1} << 30;
    count = sendfile(copy.descriptor_, descriptor_, &at, kAtOnce);
  }
  if (count < 0) {
    fail(ExitCode::file, "{}: cannot write: {}", name, reason(errno));
  }
  copy.take_name(false);
  return "in " + name;
}

void write_text_file(const std::string& path, std::string_view text, bool overwrite) {
  NewFile file(path);
  file.write(text);
  file.take_name(overwrite);
}

}  // namespace hidup
