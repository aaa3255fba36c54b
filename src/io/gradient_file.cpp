#include "io/gradient_file.h"

#include "core/new_file.h"
#include "io/hdf5.h"

namespace hidup {
namespace {

void write_hdf5(const NewFile& place, double loss, std::span<const NamedTensor> gradients) {
  const auto lock = hdf5::lock_library();
  hdf5::File file(place);
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
  NewFile file(path);
  write_hdf5(file, loss, gradients);
  file.take_name(overwrite);
}

}  // namespace hidup
