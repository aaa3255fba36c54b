#include "core/file.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/check.h"

namespace hidup {

std::string read_text_file(const std::string& path, std::string_view what) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  std::string text;
  if (file) {
    std::array<char, 4096> block;
    while (const size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
      text.append(block.data(), count);
    }
  }
  if (!file || std::ferror(file.get()) != 0) {
    fail(ExitCode::file, "cannot read the {} {}: {}", what, path, std::strerror(errno));
  }
  return text;
}

void write_text_file(const std::string& path, std::string_view text, std::string_view what) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool written =
      file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int reason = errno;
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) {
    fail(ExitCode::file, "cannot write the {} {}: {}", what, path,
         std::strerror(written ? errno : reason));
  }
}

}  // namespace hidup
