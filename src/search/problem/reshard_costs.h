// Costs of bringing a value from one layout to another. Equal reshards, and equal steps of
// reshards, are costed once for all tensors and problems of a search.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/key.h"
#include "cost/cost_model.h"
#include "cost/rank_costs.h"
#include "program/lower.h"
#include "program/program.h"
#include "search/problem/problem.h"
#include "sharding/routes.h"

namespace hidup {

// Returns the value with about `bytes` bytes, resized in its longest dimension. Empty values stay.
Value grown_to(Value value, double bytes);

// Costs reshards and operations; thread-safe.
class ReshardCosts {
 public:
  // `of_ranks`: the costs of operations on every rank; null: those of `costs`. Both must outlive
  // the object.
  ReshardCosts(const Mesh& mesh, const CostModel& costs, const RankCosts* of_ranks = nullptr);

  const CostModel& model() const { return costs_; }

  // Returns the cost of the cheapest route.
  Reshard cheapest(const Value& value, const Layout& to, const Sending& how) const;
  // Returns the cost of the value along the route.
  Reshard along(const Route& route, const Value& value, const Sending& how) const;
  // Returns the seconds of an instruction of the compute stream on its slowest rank.
  double operation_s(const Program& program, const Instruction& instruction) const;
  // Returns the largest value over the ranks, among which each part of the program's values occurs.
  template <typename OnRank>
  double largest(const Program& program, OnRank on_rank) const {
    double most = 0.0;
    for (const int64_t rank : ranks_for(program)) {
      most = std::max(most, static_cast<double>(on_rank(rank)));
    }
    return most;
  }

 private:
  std::vector<int64_t> ranks_for(const Program& program) const;
  // Returns the stored cost, or else computes it by cost().
  template <typename Cost>
  Reshard once(const MapKey& key, Cost cost) const;
  Reshard cheapest_route(const Value& value, const Layout& to, const Sending& how) const;
  Reshard step(const ReshardStep& step, const Value& value, const Sending& how) const;
  Reshard message(const Value& from, const Value& to, Instruction instruction,
                  const Sending& how) const;

  const Mesh mesh_;
  const std::vector<int64_t> ranks_;  // include one with the largest parts, and one of each class
  const CostModel& costs_;
  const RankCosts* of_ranks_;
  mutable std::mutex mutex_;  // guards known_
  mutable std::unordered_map<std::string, Reshard> known_;
};

}  // namespace hidup
