#include "io/gradient_file.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "io/hdf5.h"
#include "io/output_path.h"

namespace hidup {
namespace {

void write_file(const std::string& path, double loss, std::span<const NamedTensor> gradients) {
  const auto lock = hdf5::lock_library();
  hdf5::File file(path);
  try {
    file.set_attribute(file.id(), "step", int64_t{1});
    file.set_attribute(file.id(), "loss", loss);
    for (const NamedTensor& tensor : gradients) {
      const hdf5::Extents extents(tensor.shape.begin(), tensor.shape.end());
      file.write_dataset(tensor.name, hdf5::native_type<float>(), extents, tensor.data);
    }
  } catch (...) {
    file.abandon();
    throw;
  }
  file.close();
}

}  // namespace

void write_gradients(const std::string& path, bool overwrite, double loss,
                     std::span<const NamedTensor> gradients) {
  prepare_output(path, overwrite, "--dump-gradients");
  const std::string partial = path + ".partial";
  std::remove(partial.c_str());  // what a killed run may have left
  try {
    write_file(partial, loss, gradients);
    std::error_code error;
    std::filesystem::rename(partial, path, error);
    if (error) {
      fail(ExitCode::file, "{}: cannot rename {} to it: {}", path, partial, error.message());
    }
  } catch (...) {
    std::remove(partial.c_str());
    throw;
  }
}

}  // namespace hidup
