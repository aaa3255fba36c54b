// Arrays that tests and kernels access; the host may not reach the kernels' memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "device/device.h"

namespace hidup::kernels::testing {

// Return the device of the tests' data, and the stream that copies them. They are never destroyed,
// because data may be static.
inline Device& device_of_data() {
  static Device* device = make_device({}).release();
  return *device;
}
inline Stream& stream_of_data() {
  static Stream* stream = device_of_data().create_stream("data", 1).release();
  return *stream;
}

// Works like std::vector, but data() is an address on the device, for kernels alone. The values lie
// on the host and on the device; a reader of one side gets the last write to the other. A writing
// kernel must have ended before the host reads, and an address from data() shows later writes of
// the host only after another call of data().
template <typename T>
class DeviceArray {
 public:
  using value_type = T;
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  DeviceArray() = default;
  explicit DeviceArray(size_t n, const T& value = T()) : host_(n, value) {}
  DeviceArray(std::initializer_list<T> values) : host_(values) {}
  template <std::input_iterator Iterator>
  DeviceArray(Iterator begin, Iterator end) : host_(begin, end) {}
  DeviceArray(const DeviceArray& other) : host_(other.on_host()) {}
  DeviceArray(DeviceArray&&) noexcept = default;
  DeviceArray& operator=(DeviceArray other) noexcept {
    std::swap(host_, other.host_);
    std::swap(buffer_, other.buffer_);
    std::swap(newer_, other.newer_);
    return *this;
  }
  ~DeviceArray() = default;

  // Returns the address on the device; null where there are no values.
  const T* data() const { return on_device(); }
  T* data() {
    T* const address = on_device();
    newer_ = address == nullptr ? newer_ : Side::device;
    return address;
  }

  // The members below access the values on the host.
  size_t size() const { return host_.size(); }
  bool empty() const { return host_.empty(); }
  const T& operator[](size_t i) const { return on_host()[i]; }
  T& operator[](size_t i) { return written_on_host()[i]; }
  const_iterator begin() const { return on_host().begin(); }
  const_iterator end() const { return on_host().end(); }
  iterator begin() { return written_on_host().begin(); }
  iterator end() { return written_on_host().end(); }
  void push_back(const T& value) { written_on_host().push_back(value); }
  template <typename Iterator>
  void insert(const_iterator at, Iterator first, Iterator last) {
    written_on_host().insert(at, first, last);
  }
  bool operator==(const DeviceArray& other) const { return on_host() == other.on_host(); }

 private:
  enum class Side { both, host, device };

  int64_t bytes() const { return static_cast<int64_t>(host_.size() * sizeof(T)); }

  const std::vector<T>& on_host() const {
    if (newer_ == Side::device) {
      copy(host_.data(), buffer_->data());
    }
    return host_;
  }
  std::vector<T>& written_on_host() {
    on_host();
    newer_ = Side::host;
    return host_;
  }

  T* on_device() const {
    if (host_.empty()) {
      return nullptr;
    }
    if (!buffer_ || buffer_->bytes() < bytes()) {
      buffer_ = device_of_data().allocate(bytes());
    }
    if (newer_ == Side::host) {
      copy(buffer_->data(), host_.data());
    }
    return reinterpret_cast<T*>(buffer_->data());
  }

  void copy(void* to, const void* from) const {
    stream_of_data().copy(to, from, bytes());
    stream_of_data().synchronize();
    newer_ = Side::both;
  }

  mutable std::vector<T> host_;
  mutable std::unique_ptr<Buffer> buffer_;
  mutable Side newer_ = Side::host;
};

}  // namespace hidup::kernels::testing
