// Names that are alike in every block of a model.
#pragma once

#include <string>

namespace hidup {

// "layers.3.ffn.up" -> "layers.*.ffn.up": parts that are numbers become *.
std::string pattern_of(const std::string& name);

}  // namespace hidup
