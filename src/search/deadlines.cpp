#include "search/deadlines.h"

#include <algorithm>

#include "search/memory_limit.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

// The part of the time left for the search, after which the memory choices yield to advice and the
// proof yields to the simulation of candidates.
constexpr double kProof = 0.6;
// A forecast takes this many times as long as lowering the strategy; all forecasts after the end of
// the search together take kForecasts times as long.
constexpr double kForecast = 4.0, kForecasts = 8.0;
constexpr double kMostForForecasts = 0.7;  // the most for forecasts, as a part of the limit
// The timed lowering's limit, as a part of the time limit. Above it no forecast ends in time.
constexpr double kMostForTrial = 0.1;
// A forecast still running after this many times the limit yields to that of a named strategy.
constexpr double kTooLate = 1.2;

}  // namespace

SearchDeadlines deadlines_of(const Graph& graph, const Mesh& mesh, const SearchOptions& options) {
  const double limit = options.time_limit_s;
  if (limit <= 0.0) {
    return {.all = options.deadline,
            .proof = options.deadline,
            .end = options.deadline,
            .too_late = options.too_late};
  }
  const Deadline end = Deadline::in(limit);
  const Deadline too_late = Deadline::in(kTooLate * limit);
  bool ended = false;
  {
    const Deadline soon = Deadline::in(kMostForTrial * limit);
    const TimeLimit at_most(soon);
    Strategy trial = with_memory_hints(options.hints, named_strategy("dp", graph, mesh));
    trial.accumulate = 1;
    ended = in_time([&] { lower(graph, trial, options.lowering); });
  }
  const double lowering_s = limit - end.seconds_left();
  const int least =
      std::ranges::min(microbatches_of(graph, options)) * options.hints.accumulate.value_or(1);
  const double left = limit - std::min(kForecasts * lowering_s * least, kMostForForecasts * limit);
  return {.all = Deadline::in(left - lowering_s),
          .proof = Deadline::in(kProof * left),
          .end = end,
          .too_late = too_late,
          .forecast_s = ended ? kForecast * lowering_s : limit};
}

}  // namespace hidup
