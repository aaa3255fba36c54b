// Patterns of names that are alike in every block of a model.
#pragma once

#include <string>

namespace hidup {

// Replaces each part of a name that is a number by *: "layers.3.ffn.up" -> "layers.*.ffn.up",
// "layers.3, input gradient" -> "layers.*, input gradient".
std::string pattern_of(const std::string& name);

}  // namespace hidup
