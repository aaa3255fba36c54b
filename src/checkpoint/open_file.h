// A file that is open, read and written by offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hidup {

// Errors are Error(file) "NAME: REASON".
class OpenFile {
 public:
  enum class For { reading, writing };

  // Opens the regular file at `location`; it may have another `name` in messages.
  OpenFile(const std::string& location, std::string name, For purpose);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }  // when it was opened

  void read(int64_t at, std::span<std::byte> to) const;
  void write(int64_t at, std::span<const std::byte> from) const;
  // Begins to bring a part to the disk; the other one waits until it is there.
  void start_flush(int64_t at, int64_t count) const;
  void finish_flush(int64_t at, int64_t count) const;
  // Brings all that was written to the disk.
  void flush() const;

 private:
  [[noreturn]] void throw_error(const char* doing) const;
  void flush_range(int64_t at, int64_t count, unsigned flags) const;

  std::string name_;
  int descriptor_;
  int64_t bytes_ = 0;
};

}  // namespace hidup
