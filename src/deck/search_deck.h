// The section search of the decks.
#pragma once

#include <string>

namespace hidup {

struct SearchDeck {
  std::string method;  // auto, dp, astar
};

}  // namespace hidup
