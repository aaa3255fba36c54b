// The C API of HDF5 with checked calls and handles that close themselves.
//
// The header is internal to src/io and src/checkpoint, whose other headers have no type of HDF5. A
// failed call becomes an Error(file) with the file, the action and HDF5's innermost reason, which
// is the operating system's text where there is one.
#pragma once

#include <fmt/core.h>
#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/new_file.h"

namespace hidup::hdf5 {

// Locks the library; hold the lock around all use of HDF5, destructors of handles included. The
// timing file is flushed by its own thread, and not every build of the library is thread-safe. Sets
// the library up for this process and thread.
[[nodiscard]] std::unique_lock<std::mutex> lock_library();

// Owns an HDF5 identifier of any kind.
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle();

  hid_t get() const { return id_; }
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// Returns the reason of the last failed call: "no space left on device".
std::string innermost_error();

// Returns the version of the loaded library: "1.10.8".
std::string version();

template <typename T>
hid_t native_type() {
  if constexpr (std::is_same_v<T, int64_t>) {
    return H5T_NATIVE_INT64;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return H5T_NATIVE_UINT64;
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return H5T_NATIVE_UINT32;
  } else if constexpr (std::is_same_v<T, double>) {
    return H5T_NATIVE_DOUBLE;
  } else {
    static_assert(std::is_same_v<T, float>);
    return H5T_NATIVE_FLOAT;
  }
}

using Extents = std::vector<hsize_t>;

// Calls of HDF5 for one file.
class Calls {
 public:
  explicit Calls(std::string path) : path_(std::move(path)) {}

  // Returns the result of an HDF5 call, or throws "PATH: cannot DOING: REASON".
  template <typename T, typename... Args>
  T checked(T result, fmt::format_string<Args...> doing, Args&&... args) const {
    if (result < 0) {
      throw_error(fmt::format(doing, std::forward<Args>(args)...));
    }
    return result;
  }

  const std::string& path() const { return path_; }  // for messages

  // Returns the type of elements in this machine's memory. HDF5 has no names for bf16 and f16.
  Handle element_type(DType dtype) const;

 private:
  [[noreturn]] void throw_error(const std::string& doing) const;

  std::string path_;
};

// A file that is being written.
class File : public Calls {
 public:
  // Writes to `file` in the newest format of the library, which SWMR needs. HDF5 leaves the first
  // `user_block` bytes alone. A file with a user block depends only on its content, as it has no
  // times, and datasets at least as large begin at its multiples.
  explicit File(const NewFile& file, hsize_t user_block = 0);

  hid_t id() const { return id_.get(); }

  void create_group(const std::string& name);
  // Writes a dataset of its final size at once; empty extents make a scalar.
  Handle write_dataset(const std::string& name, hid_t type, const Extents& extents,
                       const void* data);
  // Creates a contiguous dataset whose content others write into the file. Returns its place in
  // bytes from the start of the file. Empty extents make a scalar; no extent may be 0.
  int64_t place_dataset(const std::string& name, hid_t type, const Extents& extents);
  // Creates a dataset that can grow in dimension 0 and has the size `extents` at first.
  Handle create_growing(const std::string& name, hid_t type, const Extents& extents,
                        const Extents& chunk);

  void set_attribute(hid_t object, const std::string& name, int64_t value);
  void set_attribute(hid_t object, const std::string& name, uint64_t value);
  void set_attribute(hid_t object, const std::string& name, double value);
  void set_attribute(hid_t object, const std::string& name, const std::string& value);
  void set_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values);

  hid_t string_type() const { return string_type_.get(); }  // UTF-8, of any length

  void start_swmr();
  void flush();
  // Closes the file, which must have no open objects left.
  void close();
  // Gives the file up without closing it. After a failed write, closing would write and fail again,
  // and would leave the library in a broken state for good.
  void abandon() { id_.release(); }

 private:
  Handle without_times(hid_t kind) const;  // properties of an object to create
  Handle create_space(const std::string& name, const Extents& extents) const;
  void write_attribute(hid_t object, const std::string& name, hid_t type, const Handle& space,
                       const void* data);
  Handle create_dataset(const std::string& name, hid_t type, const Handle& space,
                        const Handle& creation);

  bool has_times_ = true;
  Handle string_type_;
  Handle id_;
};

// Returns pointers to the strings, the form in which HDF5 takes strings of any length.
std::vector<const char*> c_strings(const std::vector<std::string>& strings);

}  // namespace hidup::hdf5
