#include "cost/rank_costs.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace hidup {

RankCosts::RankCosts(CostModel all) {
  classes_.push_back(std::move(all));
}

RankCosts::RankCosts(std::vector<CostModel> classes, std::vector<size_t> class_of_rank)
    : classes_(std::move(classes)), class_of_rank_(std::move(class_of_rank)) {
  check(!classes_.empty() && !class_of_rank_.empty() &&
            std::ranges::max(class_of_rank_) < classes_.size(),
        "ranks without costs");
  check(std::ranges::all_of(classes_,
                            [&](const CostModel& one) {
                              return one.launch_s() == launch_s() && one.signal_s() == signal_s() &&
                                     one.overhead_s() == overhead_s();
                            }),
        "ranks of which some start instructions later than others");
}

size_t RankCosts::class_of(int64_t rank) const {
  return all_alike() ? 0 : class_of_rank_.at(static_cast<size_t>(rank));
}

}  // namespace hidup
