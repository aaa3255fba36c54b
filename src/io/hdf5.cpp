#include "io/hdf5.h"

#include "core/check.h"
#include "core/text.h"

namespace hidup::hdf5 {
std::unique_lock<std::mutex> lock_library() {
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  // After a failed write, HDF5's exit handler would retry for ever. All files are closed
  // explicitly.
  static const herr_t no_exit_handler = H5dont_atexit();
  static_cast<void>(no_exit_handler);
  // Each thread must tell HDF5 not to print errors.
  thread_local const herr_t silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  static_cast<void>(silent);
  return lock;
}

Handle::~Handle() {
  if (id_ >= 0) {
    H5Idec_ref(id_);
  }
}

std::string innermost_error() {
  std::string reason = "HDF5 gives no reason";
  const auto keep_first = [](unsigned n, const H5E_error2_t* error, void* out) -> herr_t {
    if (n == 0 && error->desc != nullptr) {
      *static_cast<std::string*>(out) = error->desc;
    }
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  H5Eclear2(H5E_DEFAULT);  // a thread's errors are not freed with the thread
  // HDF5's text is "file write failed: time = ..., error message = 'No space left on device', ..."
  const std::string_view key = "error message = '";
  const size_t start = reason.find(key);
  if (start != std::string::npos) {
    const size_t end = reason.find('\'', start + key.size());
    reason = reason.substr(start + key.size(), end - start - key.size());
  }
  return lower_case_start(reason);
}

std::string version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::vector<const char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  pointers.reserve(strings.size());
  for (const std::string& string : strings) {
    pointers.push_back(string.c_str());
  }
  return pointers;
}

Handle Calls::element_type(DType dtype) const {
  if (dtype == DType::f32 || dtype == DType::i32) {
    const hid_t known = dtype == DType::f32 ? H5T_IEEE_F32LE : H5T_STD_I32LE;
    return Handle(checked(H5Tcopy(known), "create a type"));
  }
  const size_t exponent = dtype == DType::bf16 ? 8 : 5;  // bits
  const size_t mantissa = 15 - exponent;
  Handle type(checked(H5Tcopy(H5T_IEEE_F32LE), "create a type"));
  checked(H5Tset_fields(type.get(), 15, mantissa, exponent, 0, mantissa), "create a type");
  checked(H5Tset_size(type.get(), 2), "create a type");
  checked(H5Tset_ebias(type.get(), (size_t{1} << (exponent - 1)) - 1), "create a type");
  return type;
}

void Calls::throw_error(const std::string& doing) const {
  fail(ExitCode::file, "{}: cannot {}: {}", path(), doing, innermost_error());
}

File::File(const NewFile& file, hsize_t user_block)
    : Calls(file.name()), has_times_(user_block == 0) {
  string_type_ = Handle(checked(H5Tcopy(H5T_C_S1), "create a string type"));
  checked(H5Tset_size(string_type(), H5T_VARIABLE), "create a string type");
  checked(H5Tset_cset(string_type(), H5T_CSET_UTF8), "create a string type");
  const Handle access(checked(H5Pcreate(H5P_FILE_ACCESS), "set the file's properties"));
  checked(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST),
          "set the file's format");
  // Parallel file systems are often mounted without locks.
  checked(H5Pset_file_locking(access.get(), /*use_file_locking=*/1, /*ignore_when_disabled=*/1),
          "set the file's locking");
  const Handle creation = without_times(H5P_FILE_CREATE);
  if (user_block > 0) {
    checked(H5Pset_userblock(creation.get(), user_block), "set the file's properties");
    checked(H5Pset_alignment(access.get(), user_block, user_block), "set the file's properties");
  }
  id_ = Handle(
      checked(H5Fcreate(file.location().c_str(), H5F_ACC_TRUNC, creation.get(), access.get()),
              "create the file"));
}

Handle File::without_times(hid_t kind) const {
  Handle properties(checked(H5Pcreate(kind), "set properties"));
  if (!has_times_) {
    checked(H5Pset_obj_track_times(properties.get(), false), "set properties");
  }
  return properties;
}

void File::create_group(const std::string& name) {
  const Handle creation = without_times(H5P_GROUP_CREATE);
  const Handle group(
      checked(H5Gcreate2(id(), name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
              "create the group {}", name));
}

Handle File::create_space(const std::string& name, const Extents& extents) const {
  return Handle(checked(
      extents.empty() ? H5Screate(H5S_SCALAR)
                      : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
      "create the dataset {}", name));
}

Handle File::create_dataset(const std::string& name, hid_t type, const Handle& space,
                            const Handle& creation) {
  return Handle(checked(
      H5Dcreate2(id(), name.c_str(), type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      "create the dataset {}", name));
}

Handle File::write_dataset(const std::string& name, hid_t type, const Extents& extents,
                           const void* data) {
  Handle dataset =
      create_dataset(name, type, create_space(name, extents), without_times(H5P_DATASET_CREATE));
  checked(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write {}", name);
  return dataset;
}

int64_t File::place_dataset(const std::string& name, hid_t type, const Extents& extents) {
  const Handle creation = without_times(H5P_DATASET_CREATE);
  checked(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), "create the dataset {}", name);
  checked(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "create the dataset {}", name);
  checked(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "create the dataset {}", name);
  const Handle dataset = create_dataset(name, type, create_space(name, extents), creation);
  const haddr_t place = H5Dget_offset(dataset.get());
  check(place != HADDR_UNDEF, "HDF5 gave the dataset {} no place", name);
  return static_cast<int64_t>(place);
}

Handle File::create_growing(const std::string& name, hid_t type, const Extents& extents,
                            const Extents& chunk) {
  Extents limits = extents;
  limits[0] = H5S_UNLIMITED;
  const int dims = static_cast<int>(extents.size());
  const Handle space(checked(H5Screate_simple(dims, extents.data(), limits.data()),
                             "create the dataset {}", name));
  const Handle creation(checked(H5Pcreate(H5P_DATASET_CREATE), "create the dataset {}", name));
  checked(H5Pset_chunk(creation.get(), dims, chunk.data()), "create the dataset {}", name);
  return create_dataset(name, type, space, creation);
}

void File::write_attribute(hid_t object, const std::string& name, hid_t type, const Handle& space,
                           const void* data) {
  const Handle attribute(
      checked(H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
              "create the attribute {}", name));
  checked(H5Awrite(attribute.get(), type, data), "write the attribute {}", name);
}

void File::set_attribute(hid_t object, const std::string& name, int64_t value) {
  const Handle space(checked(H5Screate(H5S_SCALAR), "create the attribute {}", name));
  write_attribute(object, name, native_type<int64_t>(), space, &value);
}

void File::set_attribute(hid_t object, const std::string& name, uint64_t value) {
  const Handle space(checked(H5Screate(H5S_SCALAR), "create the attribute {}", name));
  write_attribute(object, name, native_type<uint64_t>(), space, &value);
}

void File::set_attribute(hid_t object, const std::string& name, double value) {
  const Handle space(checked(H5Screate(H5S_SCALAR), "create the attribute {}", name));
  write_attribute(object, name, native_type<double>(), space, &value);
}

void File::set_attribute(hid_t object, const std::string& name, const std::string& value) {
  const Handle space(checked(H5Screate(H5S_SCALAR), "create the attribute {}", name));
  const char* pointer = value.c_str();
  write_attribute(object, name, string_type(), space, &pointer);
}

void File::set_attribute(hid_t object, const std::string& name,
                         const std::vector<std::string>& values) {
  const hsize_t count = values.size();
  const Handle space(
      checked(H5Screate_simple(1, &count, nullptr), "create the attribute {}", name));
  std::vector<const char*> pointers = c_strings(values);
  pointers.push_back(nullptr);  // HDF5 takes no null buffer, even for no values
  write_attribute(object, name, string_type(), space, pointers.data());
}

void File::start_swmr() {
  checked(H5Fstart_swmr_write(id()), "let readers in (start SWMR)");
}

void File::flush() {
  checked(H5Fflush(id(), H5F_SCOPE_LOCAL), "write");
}

void File::close() {
  checked(H5Fclose(id_.release()), "close the file");
}

}  // namespace hidup::hdf5
