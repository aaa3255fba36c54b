// Input from HDF5 files; internal to src/io and src/checkpoint.
//
// A file may come from anywhere, so its sizes are checked before memory is allocated. HDF5 itself
// can crash on a damaged file, so the caller compares checksums first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5.h"

namespace hidup::hdf5 {

// The place, type and extents of a contiguous dataset.
struct InputDataset {
  Handle type;
  Extents extents;
  int64_t place = 0;  // bytes from the start of the file
  int64_t bytes = 0;
};

class InputFile : public Calls {
 public:
  // Opens a file of `bytes` bytes; nothing in it can be larger. A growing file may still be written
  // (SWMR), or its writer was killed.
  enum class State { complete, growing };
  InputFile(const std::string& path, int64_t bytes, State state = State::complete);

  // Returns the paths of all datasets, such as "parameters/layers.0.ffn.up.weight". Throws where a
  // link is not a hard one, because it could lead to another file.
  std::vector<std::string> datasets() const;
  // Returns a dataset. Throws where it is chunked, compact, in another file or empty.
  InputDataset dataset(const std::string& name) const;
  Handle open_group(const std::string& name) const;
  // Returns true if a link of that path exists; its groups must exist.
  bool has(const std::string& path) const;
  // Returns all elements of a dataset of any layout: int64_t, double, or std::string of any length.
  // Throws where it has another type or number of dimensions.
  template <typename T>
  std::vector<T> values(const std::string& name, int dims) const;

  // Read attributes of the types that File::set_attribute() writes. Other types throw.
  void get_attribute(hid_t object, const std::string& name, int64_t& value) const;
  void get_attribute(hid_t object, const std::string& name, uint64_t& value) const;
  void get_attribute(hid_t object, const std::string& name, double& value) const;
  void get_attribute(hid_t object, const std::string& name, std::string& value) const;
  void get_attribute(hid_t object, const std::string& name, std::vector<std::string>& value) const;

 private:
  template <typename... Args>
  void expect(bool right, fmt::format_string<Args...> what, Args&&... args) const;
  template <typename T>
  void get_number(hid_t object, const std::string& name, T& value) const;
  // Returns the strings of an attribute of `dims` dimensions.
  std::vector<std::string> get_texts(hid_t object, const std::string& name, int dims) const;

  int64_t bytes_;
  Handle id_;
};

}  // namespace hidup::hdf5
