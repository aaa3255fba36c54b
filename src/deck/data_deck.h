// The section data: what the model learns from.
#pragma once

#include <string>
#include <vector>

namespace hidup {

// The data that measure the validation loss; at most one of the two is there.
struct ValidationData {
  double fraction = 0.0;          // of the windows of the data, the last ones; 0: none
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
