// The costs of every rank, where devices differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"

namespace hidup {

class RankCosts {
 public:
  // All ranks alike; not explicit, because most clusters are so.
  RankCosts(CostModel all);
  // `class_of_rank`: of every rank, its number in `classes`; `names`: of the classes, for people.
  // Throws Error(internal) where a class is missing, or where the classes differ in launch_s,
  // signal_s or overhead_s.
  RankCosts(std::vector<CostModel> classes, std::vector<size_t> class_of_rank,
            std::vector<std::string> names = {});

  bool all_alike() const { return class_of_rank_.empty(); }
  size_t class_of(int64_t rank) const;
  // The costs of these ranks only, in their order.
  RankCosts of_ranks(const std::vector<int64_t>& ranks) const;
  // Of the class of all ranks, where they are of one; else empty.
  std::string class_name() const;
  const CostModel& of(int64_t rank) const { return classes_[class_of(rank)]; }

  // Of all ranks.
  double launch_s() const { return classes_.front().launch_s(); }
  double signal_s() const { return classes_.front().signal_s(); }
  double overhead_s() const { return classes_.front().overhead_s(); }

 private:
  std::vector<CostModel> classes_;
  std::vector<size_t> class_of_rank_;  // empty: all are of the first
  std::vector<std::string> names_;     // of the classes, or none
};

}  // namespace hidup
