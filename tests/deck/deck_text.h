// Decks for the tests, and short functions that parse them.
#pragma once

#include <string>
#include <vector>

#include "core/check.h"
#include "deck/deck.h"

namespace hidup {

// A right model deck; tests of wrong decks rely on the number of every line.
inline const std::string kModel =
    "model:\n"              // 1
    "  layers: 2\n"         // 2
    "  hidden: 128\n"       // 3
    "  heads: 4\n"          // 4
    "  sequence: 64\n"      // 5
    "data:\n"               // 6
    "  kind: text\n"        // 7
    "  path: corpus.txt\n"  // 8
    "train:\n"              // 9
    "  batch: 16\n"         // 10
    "  steps: 300\n";       // 11

inline const std::string kCluster =
    "cluster:\n"                                    // 1
    "  device: {kind: cpu, memory: 2GiB}\n"         // 2
    "  mesh:\n"                                     // 3
    "    - {name: node, size: 2, latency: 30us}\n"  // 4
    "    - name: gpu\n"                             // 5
    "      size: auto\n"                            // 6
    "      bandwidth: 9.71Gbps\n";                  // 7

inline Deck parse(const std::string& model, const std::string& cluster = kCluster,
                  const std::vector<std::string>& overrides = {},
                  std::optional<int64_t> ranks = std::nullopt) {
  const DeckSource model_source{"m.yaml", model, "/decks"};
  const DeckSource cluster_source{"c.yaml", cluster, "/decks"};
  return parse_decks(&model_source, &cluster_source, overrides, ranks);
}

// Returns the problems of the decks, or "" if there are none. Only Error(usage) is caught.
inline std::string problems_of(const std::string& model, const std::string& cluster = kCluster,
                               const std::vector<std::string>& overrides = {},
                               std::optional<int64_t> ranks = std::nullopt) {
  try {
    parse(model, cluster, overrides, ranks);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) {
      throw;
    }
    return error.what();
  }
  return "";
}

// Returns `text` with its `line`-th line (from 1) replaced; "" removes the line.
inline std::string with_line(const std::string& text, int line, const std::string& replacement) {
  size_t start = 0;
  for (int i = 1; i < line; ++i) {
    start = text.find('\n', start) + 1;
  }
  const size_t end = text.find('\n', start) + 1;
  return text.substr(0, start) + (replacement.empty() ? "" : replacement + "\n") + text.substr(end);
}

}  // namespace hidup
