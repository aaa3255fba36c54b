#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "core/text.h"
#include "core/units.h"

namespace hidup {

namespace fs = std::filesystem;

std::string_view kind_of_file(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISFIFO(mode)                 ? "a pipe"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                          : "a socket";
}

std::string working_folder() {
  std::error_code error;
  const fs::path folder = fs::current_path(error);
  if (error) {
    fail(ExitCode::file, "the working directory cannot be found; was it deleted? ({})",
         error.message());
  }
  return folder;
}

namespace {

// The file that read_text_file() reads.
class TextFile {
 public:
  // O_NONBLOCK keeps open() from waiting for the writer of a pipe.
  TextFile(const std::string& path, std::string_view what)
      : path_(path),
        what_(what),
        descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (descriptor_ < 0) {
      refuse(std::strerror(errno));
    }
  }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  ~TextFile() { close(descriptor_); }

  std::string read(int64_t max_bytes) const {
    struct stat status = {};
    if (fstat(descriptor_, &status) != 0) {
      refuse(std::strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
      refuse(std::strerror(EISDIR));
    }
    if (!S_ISREG(status.st_mode)) {
      refuse(fmt::format("it is {}, not a regular file", kind_of_file(status.st_mode)));
    }
    // The size is checked first, so that no part of a huge file is read, and again below, because
    // some files have more than their size says.
    const std::string too_large = fmt::format("it is larger than {}", format_bytes(max_bytes));
    if (status.st_size > max_bytes) {
      refuse(too_large);
    }
    std::string text;
    text.reserve(static_cast<size_t>(status.st_size));
    std::array<char, 1 << 16> block;
    while (const size_t count = read_block(block)) {
      text.append(block.data(), count);
      if (static_cast<int64_t>(text.size()) > max_bytes) {
        refuse(too_large);
      }
    }
    return text;
  }

 private:
  [[noreturn]] void refuse(std::string_view reason) const {
    fail(ExitCode::file, "cannot read the {} {}: {}", what_, shown(path_), reason);
  }

  // Returns 0 at the end.
  template <typename Block>
  size_t read_block(Block& block) const {
    ssize_t count = -1;
    do {
      count = ::read(descriptor_, block.data(), block.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
      refuse(std::strerror(errno));
    }
    return static_cast<size_t>(count);
  }

  const std::string& path_;
  std::string_view what_;
  int descriptor_;
};

}  // namespace

std::string read_text_file(const std::string& path, std::string_view what, int64_t max_bytes) {
  return TextFile(path, what).read(max_bytes);
}

}  // namespace hidup
