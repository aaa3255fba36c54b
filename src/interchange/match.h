// Matches tensors of other programs with the parameters of a model, and reads their elements.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/region.h"
#include "graph/graph.h"
#include "interchange/name_map.h"
#include "interchange/tensor_files.h"

namespace hidup {

// The source of a parameter, or of a part of it.
struct TensorPart {
  PlacedTensor at;
  TheirTensor theirs;
};
// The source of a parameter: one tensor, or one for each index of its first dimension, all of one
// type.
struct TensorSource {
  std::vector<TensorPart> parts;
  DType dtype() const { return parts.front().at.tensor->dtype.value(); }
};

// Returns the map whose names the files have; "hidup" where no other map fits.
const NameMap& guess_names(const TensorFiles& files);

// Returns the source of every parameter of the graph, by its name. Throws Error(usage) with all
// tensors that are missing, unknown or of another shape, and copies that differ.
std::map<std::string, TensorSource> find_sources(const TensorFiles& files, const NameMap& names,
                                                 const Graph& graph);

// Returns a box of the parameter, row-major in it, in the type of the file. Throws Error(file).
std::vector<std::byte> read_box(const TensorSource& source, const Region& box);

// Returns all elements of a parameter in the order of the other program.
std::vector<std::byte> as_theirs(const TheirTensor& theirs, std::vector<std::byte> ours,
                                 DType dtype);

}  // namespace hidup
