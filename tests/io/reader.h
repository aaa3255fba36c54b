// Reads HDF5 files with the plain C API, as a program other than hidup would.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

namespace hidup {

using Texts = std::vector<std::string>;
using Numbers = std::vector<int64_t>;
using Extents = std::vector<hsize_t>;

template <typename T>
hid_t type_in_memory() {
  if constexpr (std::is_same_v<T, int64_t>) {
    return H5T_NATIVE_INT64;
  } else if constexpr (std::is_same_v<T, float>) {
    return H5T_NATIVE_FLOAT;
  } else {
    return H5T_NATIVE_DOUBLE;
  }
}

// An open file that may still be written.
class Reader {
 public:
  explicit Reader(const std::string& path)
      : id_(H5Fopen(path.c_str(), H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, H5P_DEFAULT)) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (id_ >= 0) {
      H5Fclose(id_);
    }
  }

  bool is_open() const { return id_ >= 0; }
  hid_t id() const { return id_; }

  std::vector<hsize_t> shape(const std::string& name) const {
    const hid_t dataset = H5Dopen2(id_, name.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<hsize_t> extents(static_cast<size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    H5Sclose(space);
    H5Dclose(dataset);
    return extents;
  }

  template <typename T>
  std::vector<T> values(const std::string& name) const {
    const hid_t dataset = H5Dopen2(id_, name.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<T> result(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, type_in_memory<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, result.data()),
              0)
        << name;
    H5Sclose(space);
    H5Dclose(dataset);
    return result;
  }

  std::vector<std::string> texts(const std::string& name) const {
    const hid_t dataset = H5Dopen2(id_, name.c_str(), H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    const hid_t type = H5Dget_type(dataset);
    std::vector<char*> pointers(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), 0) << name;
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    return take(pointers);
  }

  std::vector<std::string> text_attribute(const std::string& object,
                                          const std::string& name) const {
    const hid_t attribute =
        H5Aopen_by_name(id_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0) {
      return {"no attribute"};
    }
    const hid_t space = H5Aget_space(attribute);
    const hid_t type = H5Aget_type(attribute);
    std::vector<char*> pointers(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
    pointers.reserve(1);  // HDF5 needs a buffer even for no values
    EXPECT_GE(H5Aread(attribute, type, pointers.data()), 0) << name;
    H5Tclose(type);
    H5Sclose(space);
    H5Aclose(attribute);
    return take(pointers);
  }

  template <typename T>
  T attribute(const std::string& name, const std::string& object = "/") const {
    T value = -1;
    const hid_t attribute =
        H5Aopen_by_name(id_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Aread(attribute, type_in_memory<T>(), &value), 0) << name;
    H5Aclose(attribute);
    return value;
  }

 private:
  static std::vector<std::string> take(const std::vector<char*>& pointers) {
    std::vector<std::string> result;
    for (char* pointer : pointers) {
      result.emplace_back(pointer);
      std::free(pointer);
    }
    return result;
  }

  hid_t id_;
};

}  // namespace hidup
