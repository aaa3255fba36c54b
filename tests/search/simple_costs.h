// A cost model by hand, for tests of the search.
#pragma once

#include "cost/cost_model.h"
#include "program/lower.h"

namespace hidup {

// Every product at 10 Gflop/s, everything else at 5 GB/s; messages at `bandwidth` and 20 us.
CostModel simple_costs(double bandwidth = 1e9);

// Small buckets, so that the parameters of a small model fill many.
inline constexpr int64_t kSmallBucket = 1 << 16;
LoweringOptions simple_lowering(int64_t bucket_bytes = kSmallBucket);

}  // namespace hidup
