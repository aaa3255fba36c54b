// Values packed as bytes, for other ranks of the same program.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hidup {

// Appends values to bytes.
class Packer {
 public:
  template <typename T>
  void operator()(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    bytes_ += text;
  }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    for (const T& value : values) {
      (*this)(value);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Takes values from bytes in the order in which they were appended.
class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : at_(bytes.data()) {}

  template <typename T>
  void operator()(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
  }
  void operator()(std::string& text) {
    text.resize(size());
    std::memcpy(text.data(), at_, text.size());
    at_ += text.size();
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    values.resize(size());
    for (T& value : values) {
      (*this)(value);
    }
  }

 private:
  size_t size() {
    size_t count = 0;
    (*this)(count);
    return count;
  }

  const char* at_;
};

}  // namespace hidup
