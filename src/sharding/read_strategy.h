// The reader of strategy files.
#pragma once

#include <string>

#include "sharding/strategy.h"

namespace hidup {

// Reads a text of print_strategy() that a person may have edited. `inputs` and `outputs` of an
// operation may be left out; if given, they must be those of its rule. Throws one Error(usage) with
// a line "SOURCE:LINE:COLUMN: ..." per problem where the text is not a strategy for this graph and
// mesh: an illegal rule is named with its operation, the reason and the legal rules.
Strategy parse_strategy(const Graph& graph, const Mesh& mesh, const std::string& text,
                        const std::string& source);

}  // namespace hidup
