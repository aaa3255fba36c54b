// Which tensors of others are the parameters of a model of ours, and their elements.
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

// Where a parameter is.
struct TensorSource {
  PlacedTensor at;
  TheirTensor theirs;
};

// The map whose names the files have: "hidup" where it is no other one's.
const NameMap& guess_names(const TensorFiles& files);

// Of every parameter of the graph, by its name. Throws Error(usage) that names all tensors that are
// missing, additional or of another shape, and copies that differ from what they should repeat.
std::map<std::string, TensorSource> find_sources(const TensorFiles& files, const NameMap& names,
                                                 const Graph& graph);

// A box of the parameter, row-major in it, of the type that the file has. Throws Error(file).
std::vector<std::byte> read_box(const TensorSource& source, const Region& box);

// All elements of a parameter in the order in which theirs has them.
std::vector<std::byte> as_theirs(const TheirTensor& theirs, std::vector<std::byte> ours,
                                 DType dtype);

}  // namespace hidup
