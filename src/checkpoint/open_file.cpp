#include "checkpoint/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/file.h"
#include "core/text.h"

namespace hidup {

OpenFile::OpenFile(const std::string& location, std::string name, For purpose)
    : name_(std::move(name)),
      // O_NONBLOCK: opening a pipe must not wait for its other end.
      descriptor_(open(location.c_str(),
                       (purpose == For::reading ? O_RDONLY : O_WRONLY) | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status = {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    throw_error("open the file");
  }
  if (!S_ISREG(status.st_mode)) {
    close(descriptor_);
    fail(ExitCode::file, "{}: is {}, not a file", name_, kind_of_file(status.st_mode));
  }
  bytes_ = status.st_size;
}

OpenFile::~OpenFile() {
  close(descriptor_);
}

void OpenFile::throw_error(const char* doing) const {
  fail(ExitCode::file, "{}: cannot {}: {}", name_, doing, lower_case_start(std::strerror(errno)));
}

void OpenFile::read(int64_t at, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = pread(descriptor_, to.data(), to.size(), at);
    if (count < 0 && errno != EINTR) {
      throw_error("read");
    }
    if (count == 0) {
      fail(ExitCode::file, "{}: ends at byte {}, before what it should hold", name_, at);
    }
    if (count > 0) {
      at += count;
      to = to.subspan(static_cast<size_t>(count));
    }
  }
}

void OpenFile::write(int64_t at, std::span<const std::byte> from) const {
  while (!from.empty()) {
    const ssize_t count = pwrite(descriptor_, from.data(), from.size(), at);
    if (count < 0 && errno != EINTR) {
      throw_error("write");
    }
    if (count > 0) {
      at += count;
      from = from.subspan(static_cast<size_t>(count));
    }
  }
}

// Throws on a failed write, which the kernel reports only once per open file.
void OpenFile::flush_range(int64_t at, int64_t count, unsigned flags) const {
  const bool done = count == 0 || sync_file_range(descriptor_, at, count, flags) == 0;
  if (!done && errno != EINVAL && errno != ENOSYS && errno != ESPIPE && errno != ENOTSUP) {
    throw_error("write");
  }
}

void OpenFile::start_flush(int64_t at, int64_t count) const {
  flush_range(at, count, SYNC_FILE_RANGE_WRITE);
}

void OpenFile::finish_flush(int64_t at, int64_t count) const {
  flush_range(at, count,
              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

void OpenFile::flush() const {
  if (fdatasync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) {
    throw_error("write");
  }
}

}  // namespace hidup
