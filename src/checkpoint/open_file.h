// An open file that is read and written by offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hidup {

// Throws errors as Error(file) "NAME: REASON".
class OpenFile {
 public:
  enum class For { reading, writing };

  // Opens the regular file at `location`; messages call it `name`.
  OpenFile(const std::string& location, std::string name, For purpose);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }  // size when it was opened

  void read(int64_t at, std::span<std::byte> to) const;
  void write(int64_t at, std::span<const std::byte> from) const;
  // Starts to flush a part to the disk; finish_flush() waits until it is there.
  void start_flush(int64_t at, int64_t count) const;
  void finish_flush(int64_t at, int64_t count) const;
  // Flushes all written bytes to the disk.
  void flush() const;

 private:
  [[noreturn]] void throw_error(const char* doing) const;
  void flush_range(int64_t at, int64_t count, unsigned flags) const;

  std::string name_;
  int descriptor_;
  int64_t bytes_ = 0;
};

}  // namespace hidup
