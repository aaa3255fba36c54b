// The costs of every rank on clusters of mixed devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/cost_model.h"

namespace hidup {

class RankCosts {
 public:
  // Gives all ranks the same costs. Not explicit, because most clusters are uniform.
  RankCosts(CostModel all);
  // `class_of_rank`: the index into `classes` of every rank. `names`: the class names, for people.
  // `slowest`: the costs of a rank with the least rates of all classes; none: of the first class.
  // Throws Error(internal) where a class is missing, or where the classes differ in launch_s,
  // signal_s or overhead_s.
  RankCosts(std::vector<CostModel> classes, std::vector<size_t> class_of_rank,
            std::vector<std::string> names = {}, std::optional<CostModel> slowest = std::nullopt);

  // Returns the costs where every rank's computations take its factor times as long.
  RankCosts slower(const std::vector<double>& factors) const;

  bool all_alike() const { return class_of_rank_.empty(); }
  size_t class_of(int64_t rank) const;
  // Returns the costs of these ranks, in their order.
  RankCosts of_ranks(const std::vector<int64_t>& ranks) const;
  // Returns the class name where all ranks share a class; else an empty string.
  std::string class_name() const;
  const CostModel& of(int64_t rank) const { return classes_[class_of(rank)]; }
  const CostModel& slowest() const { return slowest_ ? *slowest_ : classes_.front(); }

  double launch_s() const { return classes_.front().launch_s(); }
  double signal_s() const { return classes_.front().signal_s(); }
  double overhead_s() const { return classes_.front().overhead_s(); }

 private:
  std::vector<CostModel> classes_;
  std::vector<size_t> class_of_rank_;  // empty: all ranks are of the first class
  std::vector<std::string> names_;     // class names, or none
  std::optional<CostModel> slowest_;
};

}  // namespace hidup
