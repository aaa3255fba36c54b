// Names that are alike in every block of a model.
#pragma once

#include <string>

namespace hidup {

// "layers.3.ffn.up" -> "layers.*.ffn.up": parts that are numbers become *.
// "layers.3, input gradient" -> "layers.*, input gradient".
std::string pattern_of(const std::string& name);

}  // namespace hidup
