// The linear program of shares (ratios.h) of a strategy, from the times of its programs.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/rank_costs.h"
#include "program/lower.h"
#include "search/estimate/estimate.h"
#include "search/shares/pace_classes.h"
#include "search/shares/ratios.h"

namespace hidup {

// Returns the strategy's program of shares along an axis with these classes. Its coefficients fit
// the times of three programs: of equal parts, of unequal computation, and of unequal state. The
// update does not overlap with its messages. `limits`: bytes of a rank, by class; empty: no limits.
// Strategies of the parts have equal shares along the axis.
RatioProgram measured_shares(const StrategyParts& parts, size_t axis,
                             const std::vector<PaceClass>& classes, const CostModel& routes,
                             const RankCosts& costs, const LoweringOptions& lowering,
                             const std::vector<double>& limits);

}  // namespace hidup
