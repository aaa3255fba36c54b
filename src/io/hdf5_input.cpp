#include "io/hdf5_input.h"

#include <type_traits>

#include "core/check.h"
#include "core/region.h"
#include "core/text.h"

namespace hidup::hdf5 {
namespace {

struct Link {
  std::string path;
  bool is_hard;
};

herr_t add_link(hid_t /*group*/, const char* path, const H5L_info_t* info, void* links) {
  static_cast<std::vector<Link>*>(links)->push_back({path, info->type == H5L_TYPE_HARD});
  return 0;
}

// Returns `count` strings, which `read` delivers as pointers.
template <typename Read>
std::vector<std::string> take_texts(const Handle& type, const Handle& space, hssize_t count,
                                    const Read& read) {
  std::vector<char*> pointers(static_cast<size_t>(count) + 1);  // HDF5 takes no null buffer
  read(pointers.data());
  std::vector<std::string> texts;
  for (hssize_t i = 0; i < count; ++i) {
    const char* text = pointers[static_cast<size_t>(i)];
    texts.emplace_back(text == nullptr ? "" : text);
  }
  H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, pointers.data());
  return texts;
}

}  // namespace

template <typename... Args>
void InputFile::expect(bool right, fmt::format_string<Args...> what, Args&&... args) const {
  if (!right) {
    fail(ExitCode::file, "{}: {}", path(), fmt::format(what, std::forward<Args>(args)...));
  }
}

InputFile::InputFile(const std::string& path, int64_t bytes, State state)
    : Calls(path), bytes_(bytes) {
  const Handle access(checked(H5Pcreate(H5P_FILE_ACCESS), "set the file's properties"));
  // Complete files never change and SWMR needs no locks, which some file systems lack.
  checked(H5Pset_file_locking(access.get(), /*use_file_locking=*/0, /*ignore_when_disabled=*/1),
          "set the file's locking");
  if (state == State::growing) {
    constexpr unsigned kAttempts = 5;  // with 100, a damaged file would take minutes
    checked(H5Pset_metadata_read_attempts(access.get(), kAttempts), "set the file's properties");
  }
  const unsigned flags =
      state == State::growing ? H5F_ACC_RDONLY | H5F_ACC_SWMR_READ : H5F_ACC_RDONLY;
  id_ = Handle(checked(H5Fopen(path.c_str(), flags, access.get()), "open the file"));
}

std::vector<std::string> InputFile::datasets() const {
  std::vector<Link> links;
  checked(H5Lvisit(id_.get(), H5_INDEX_NAME, H5_ITER_INC, add_link, &links), "list its content");
  std::vector<std::string> found;
  for (const Link& link : links) {
    expect(link.is_hard, "{} is a link to elsewhere", shown(link.path));
    const Handle object(
        checked(H5Oopen(id_.get(), link.path.c_str(), H5P_DEFAULT), "open {}", shown(link.path)));
    if (H5Iget_type(object.get()) == H5I_DATASET) {
      found.push_back(link.path);
    }
  }
  return found;
}

InputDataset InputFile::dataset(const std::string& name) const {
  const std::string what = shown(name);
  const Handle data(
      checked(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), "open the dataset {}", what));
  const Handle creation(checked(H5Dget_create_plist(data.get()), "read {}", what));
  expect(
      H5Pget_layout(creation.get()) == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0,
      "{} is not one piece of this file", what);
  const Handle space(checked(H5Dget_space(data.get()), "read {}", what));
  const int dims = checked(H5Sget_simple_extent_ndims(space.get()), "read {}", what);
  expect(dims <= kMaxDims && H5Sget_simple_extent_npoints(space.get()) > 0,
         "{} has {} dimensions, or no elements", what, dims);
  InputDataset found{Handle(checked(H5Dget_type(data.get()), "read {}", what)),
                     Extents(static_cast<size_t>(dims)), 0, 0};
  checked(H5Sget_simple_extent_dims(space.get(), found.extents.data(), nullptr), "read {}", what);
  hsize_t bytes = H5Tget_size(found.type.get());
  for (const hsize_t extent : found.extents) {
    expect(bytes > 0 && extent <= static_cast<hsize_t>(bytes_) / bytes,
           "{} is larger than the file", what);
    bytes *= extent;
  }
  const haddr_t place = H5Dget_offset(data.get());
  expect(bytes <= static_cast<hsize_t>(bytes_) && place <= static_cast<hsize_t>(bytes_) - bytes,
         "{} lies outside of the file", what);
  found.place = static_cast<int64_t>(place);
  found.bytes = static_cast<int64_t>(bytes);
  return found;
}

Handle InputFile::open_group(const std::string& name) const {
  return Handle(checked(H5Gopen2(id_.get(), name.c_str(), H5P_DEFAULT), "open {}", shown(name)));
}

bool InputFile::has(const std::string& path) const {
  return checked(H5Lexists(id_.get(), path.c_str(), H5P_DEFAULT), "look for {}", shown(path)) > 0;
}

template <typename T>
std::vector<T> InputFile::values(const std::string& name, int dims) const {
  constexpr bool kText = std::is_same_v<T, std::string>;
  const Handle data(
      checked(H5Dopen2(id_.get(), name.c_str(), H5P_DEFAULT), "open the dataset {}", name));
  const Handle space(checked(H5Dget_space(data.get()), "read {}", name));
  const Handle type(checked(H5Dget_type(data.get()), "read {}", name));
  bool fits = H5Sget_simple_extent_ndims(space.get()) == dims;
  if constexpr (kText) {
    fits = fits && H5Tis_variable_str(type.get()) > 0;
  } else {
    fits = fits && H5Tequal(type.get(), native_type<T>()) > 0;
  }
  expect(fits, "{} has the wrong type or the wrong number of dimensions", name);
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  expect(count >= 0 && count <= bytes_ / static_cast<int64_t>(H5Tget_size(type.get())),
         "{} is larger than the file", name);
  if constexpr (kText) {
    return take_texts(type, space, count, [&](void* pointers) {
      checked(H5Dread(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers), "read {}",
              name);
    });
  } else {
    std::vector<T> values(static_cast<size_t>(count));
    if (count > 0) {
      checked(H5Dread(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
              "read {}", name);
    }
    return values;
  }
}

template std::vector<int64_t> InputFile::values(const std::string&, int) const;
template std::vector<double> InputFile::values(const std::string&, int) const;
template std::vector<std::string> InputFile::values(const std::string&, int) const;

template <typename T>
void InputFile::get_number(hid_t object, const std::string& name, T& value) const {
  const Handle attribute(
      checked(H5Aopen(object, name.c_str(), H5P_DEFAULT), "open the attribute {}", name));
  const Handle space(checked(H5Aget_space(attribute.get()), "read the attribute {}", name));
  const Handle type(checked(H5Aget_type(attribute.get()), "read the attribute {}", name));
  expect(
      H5Sget_simple_extent_npoints(space.get()) == 1 && H5Tequal(type.get(), native_type<T>()) > 0,
      "the attribute {} has the wrong type", name);
  checked(H5Aread(attribute.get(), native_type<T>(), &value), "read the attribute {}", name);
}

void InputFile::get_attribute(hid_t object, const std::string& name, int64_t& value) const {
  get_number(object, name, value);
}

void InputFile::get_attribute(hid_t object, const std::string& name, uint64_t& value) const {
  get_number(object, name, value);
}

void InputFile::get_attribute(hid_t object, const std::string& name, double& value) const {
  get_number(object, name, value);
}

std::vector<std::string> InputFile::get_texts(hid_t object, const std::string& name,
                                              int dims) const {
  const Handle attribute(
      checked(H5Aopen(object, name.c_str(), H5P_DEFAULT), "open the attribute {}", name));
  const Handle space(checked(H5Aget_space(attribute.get()), "read the attribute {}", name));
  const Handle type(checked(H5Aget_type(attribute.get()), "read the attribute {}", name));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  expect(H5Sget_simple_extent_ndims(space.get()) == dims && H5Tis_variable_str(type.get()) > 0 &&
             count >= 0 && count <= bytes_ / 16,
         "the attribute {} has the wrong type", name);
  return take_texts(type, space, count, [&](void* pointers) {
    checked(H5Aread(attribute.get(), type.get(), pointers), "read the attribute {}", name);
  });
}

void InputFile::get_attribute(hid_t object, const std::string& name, std::string& value) const {
  const std::vector<std::string> texts = get_texts(object, name, 0);
  expect(texts.size() == 1, "the attribute {} has the wrong type", name);
  value = texts[0];
}

void InputFile::get_attribute(hid_t object, const std::string& name,
                              std::vector<std::string>& value) const {
  value = get_texts(object, name, 1);
}

}  // namespace hidup::hdf5
