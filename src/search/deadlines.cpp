#include "search/deadlines.h"

#include <algorithm>

#include "search/memory_limit.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

// Of the time limit, after which choices for short memory leave the rest to advice, and the proof
// to the simulation of candidates.
constexpr double kProof = 0.6;
// One forecast takes this many times as long as lowering the strategy; those of the plans that come
// first once the time is over take this many times as long together.
constexpr double kForecast = 4.0, kForecasts = 8.0;
constexpr double kMostForForecasts = 0.7;  // of the limit
// The timed lowering takes at most this part of the limit. Where it takes longer, no forecast ends
// in time.
constexpr double kMostForTrial = 0.1;
// A forecast that has not ended after this many times the limit is given up for that of a named
// strategy.
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
