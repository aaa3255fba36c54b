// The section data of the decks.
#pragma once

#include <string>
#include <vector>

namespace hidup {

// The data of the validation loss, given in at most one of the two forms.
struct ValidationData {
  double fraction = 0.0;          // share of the data's windows, taken from the end; 0: none
  std::vector<std::string> path;  // files and globs, absolute

  bool empty() const { return fraction == 0.0 && path.empty(); }
};

struct DataDeck {
  std::string kind;
  std::vector<std::string> path;  // files and globs, absolute
  std::string tokenizer;
  ValidationData validation;
};

}  // namespace hidup
