// Writes the gradients of one step as an HDF5 file, for comparisons of runs.
#pragma once

#include <span>
#include <string>

#include "core/shape.h"

namespace hidup {

struct NamedTensor {
  std::string name;             // name of the dataset: "layers.0.ffn.up.weight"
  Shape shape;                  // global
  const float* data = nullptr;  // row-major
};

// Writes a NewFile with one float32 dataset per tensor at the root, and the root attributes step
// (1) and loss (of that step, in nats). `overwrite` is that of NewFile::take_name(). Throws
// Error(file).
void write_gradients(const std::string& path, bool overwrite, double loss,
                     std::span<const NamedTensor> gradients);

}  // namespace hidup
