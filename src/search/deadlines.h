// Deadlines of the parts of a search.
#pragma once

#include "core/deadline.h"
#include "search/search.h"

namespace hidup {

struct SearchDeadlines {
  Deadline all, proof;      // ends of the search and of its proof
  Deadline end;             // end of everything, forecasts included
  Deadline too_late;        // end of a forecast that was expected in time
  double forecast_s = 0.0;  // estimated time of a forecast per microbatch
};

// Returns the deadlines for SearchOptions::time_limit_s. They leave time for forecasts, estimated
// by lowering one strategy. Without a limit, returns those of the options.
SearchDeadlines deadlines_of(const Graph& graph, const Mesh& mesh, const SearchOptions& options);

}  // namespace hidup
