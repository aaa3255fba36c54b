// When the parts of a search end.
#pragma once

#include "core/deadline.h"
#include "search/search.h"

namespace hidup {

struct SearchDeadlines {
  Deadline all, proof;      // of the search; of its proof
  Deadline end;             // of the forecasts, too
  Deadline too_late;        // of a forecast that was expected to end in time
  double forecast_s = 0.0;  // a forecast takes about this long per microbatch
};

// By SearchOptions::time_limit_s: a part of the limit is kept for forecasts, as fast as this
// machine lowers now, which one lowering tells. Without a limit those of the options.
SearchDeadlines deadlines_of(const Graph& graph, const Mesh& mesh, const SearchOptions& options);

}  // namespace hidup
