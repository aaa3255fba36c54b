// The section data of the decks.
#pragma once

#include <memory>
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
  // Absolute path of a file with recorded loads, for the router trace.
  std::string trace;
  // The tokens of each expert in that file: a line per layer with experts and, sample by sample, as
  // often as there are samples. No key sets them.
  std::shared_ptr<const std::vector<std::vector<double>>> traced = nullptr;
};

}  // namespace hidup
