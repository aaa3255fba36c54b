// What it costs to bring a value from one layout to another. Many tensors and problems of a search
// have the same reshards, and reshards the same steps: each is costed once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/key.h"
#include "cost/cost_model.h"
#include "program/lower.h"
#include "program/program.h"
#include "search/problem/problem.h"
#include "sharding/routes.h"

namespace hidup {

// The value with about so many bytes: longer in the dimension that is longest. An empty one stays.
Value grown_to(Value value, double bytes);

// Several threads may use it.
class ReshardCosts {
 public:
  // The model of costs has to outlive it.
  ReshardCosts(const Mesh& mesh, const CostModel& costs);

  const CostModel& model() const { return costs_; }

  // The cheapest way.
  Reshard cheapest(const Value& value, const Layout& to, const Sending& how) const;
  // Of a value that goes that way.
  Reshard along(const Route& route, const Value& value, const Sending& how) const;
  // Of an instruction of the compute stream, on the rank on which it takes longest.
  double operation_s(const Program& program, const Instruction& instruction) const;
  // The largest of what it is on the ranks.
  template <typename OnRank>
  double largest(OnRank on_rank) const {
    double most = 0.0;
    for (const int64_t rank : ranks_) {
      most = std::max(most, static_cast<double>(on_rank(rank)));
    }
    return most;
  }

 private:
  // What is known of it; `cost()` otherwise.
  template <typename Cost>
  Reshard once(const Key& key, Cost cost) const;
  Reshard cheapest_route(const Value& value, const Layout& to, const Sending& how) const;
  Reshard step(const ReshardStep& step, const Value& value, const Sending& how) const;
  Reshard message(const Value& from, const Value& to, Instruction instruction,
                  const Sending& how) const;

  const Mesh mesh_;
  const std::vector<int64_t> ranks_;  // of which one has the largest parts
  const CostModel& costs_;
  mutable std::mutex mutex_;  // of known_
  mutable std::unordered_map<std::string, Reshard> known_;
};

}  // namespace hidup
