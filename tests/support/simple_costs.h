// A cost model by hand, for tests of the search.
#pragma once

#include <utility>

#include "cost/cost_model.h"
#include "program/lower.h"
#include "program/work.h"

namespace hidup {

// Returns costs: products 10 Gflop/s, other work 5 GB/s, messages `bandwidth` and 20 us.
inline CostModel simple_costs(double bandwidth = 1e9) {
  Profile profile;
  for (int i = 0; i <= static_cast<int>(Opcode::adam_rounded); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    if (!collective_of(opcode).empty() || opcode == Opcode::slice) {
      CollectiveTimes times{.opcode = opcode};
      for (double bytes = 64.0; bytes < 1e9; bytes *= 2.0) {
        const double seconds = 2e-5 + bytes / bandwidth;
        times.table.push_back({bytes, seconds, seconds, 1.0});
      }
      profile.collectives.push_back(std::move(times));
    }
    if (collective_of(opcode).empty()) {
      profile.operations.push_back({.opcode = opcode,
                                    .work = {.flops = 1e9, .bytes = 1e9, .sizes = {1000, 1000}},
                                    .seconds = is_product(opcode) ? 0.1 : 0.2});
    }
  }
  return CostModel(profile);
}

// Small buckets, so that the parameters of a small model fill many of them.
inline constexpr int64_t kSmallBucket = 1 << 16;
inline LoweringOptions simple_lowering(int64_t bucket_bytes = kSmallBucket) {
  return {
      .bucket_bytes = bucket_bytes,
      .clip_norm = 1.0,
      .optimizer = {
          .beta1 = 0.9, .beta2 = 0.999, .decoupled = true, .epsilon = 1e-8, .weight_decay = 0.1}};
}

}  // namespace hidup
