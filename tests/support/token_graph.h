// Graphs of a few tokens, written as text.
#pragma once

#include <string>

#include "graph/text.h"

namespace hidup {

// Returns a graph of four sequences of six tokens; `rest`: its parameters and operations.
inline Graph token_graph(const std::string& rest) {
  return parse_graph("graph small\ninput tokens : i32[4, 6]\ninput targets : i32[4, 6]\n" + rest,
                     "small");
}

}  // namespace hidup
