#include "cost/rank_costs.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/check.h"

namespace hidup {

RankCosts::RankCosts(CostModel all) {
  classes_.push_back(std::move(all));
}

RankCosts::RankCosts(std::vector<CostModel> classes, std::vector<size_t> class_of_rank,
                     std::vector<std::string> names, std::optional<CostModel> slowest)
    : classes_(std::move(classes)),
      class_of_rank_(std::move(class_of_rank)),
      names_(std::move(names)),
      slowest_(std::move(slowest)) {
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

RankCosts RankCosts::slower(const std::vector<double>& factors) const {
  std::vector<std::pair<size_t, double>> known;  // class and factor
  std::vector<CostModel> classes;
  std::vector<size_t> class_of_rank;
  for (size_t rank = 0; rank < factors.size(); ++rank) {
    const std::pair which(class_of(static_cast<int64_t>(rank)), factors[rank]);
    const auto found = std::ranges::find(known, which);
    class_of_rank.push_back(static_cast<size_t>(found - known.begin()));
    if (found == known.end()) {
      known.push_back(which);
      classes.push_back(classes_[which.first].slower(which.second));
    }
  }
  return {std::move(classes),
          std::move(class_of_rank),
          {},
          slowest().slower(std::ranges::max(factors))};
}

RankCosts RankCosts::of_ranks(const std::vector<int64_t>& ranks) const {
  RankCosts some = *this;
  if (!all_alike()) {
    some.class_of_rank_.clear();
    for (const int64_t rank : ranks) {
      some.class_of_rank_.push_back(class_of(rank));
    }
  }
  return some;
}

std::string RankCosts::class_name() const {
  const bool one_class =
      std::ranges::adjacent_find(class_of_rank_, std::not_equal_to<>()) == class_of_rank_.end();
  return !names_.empty() && !all_alike() && one_class ? names_.at(class_of(0)) : "";
}

size_t RankCosts::class_of(int64_t rank) const {
  return all_alike() ? 0 : class_of_rank_.at(static_cast<size_t>(rank));
}

}  // namespace hidup
