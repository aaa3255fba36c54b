// The gradients of one step as an HDF5 file, to compare runs with each other.
#pragma once

#include <span>
#include <string>

#include "core/shape.h"

namespace hidup {

struct NamedTensor {
  std::string name;             // the dataset's name, for example "layers.0.ffn.up.weight"
  Shape shape;                  // global
  const float* data = nullptr;  // row-major
};

// Writes one float32 dataset per tensor at the root, and the root attributes
// step (1) and loss (of that step, in nats). A NewFile; `overwrite` as in its
// take_name(). Throws Error(file).
void write_gradients(const std::string& path, bool overwrite, double loss,
                     std::span<const NamedTensor> gradients);

}  // namespace hidup
