// Costs of operations and reshards on a rank, by a cost model. Each is costed as lower() emits it
// without LoweringOptions::fuse, because fusing a product with its bias depends on the rules of
// several operations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/problem/problem.h"
#include "search/problem/reshard_costs.h"
#include "search/problem/transient_bytes.h"
#include "sharding/strategy.h"

namespace hidup {

// The storage of an operation's parameter.
struct ParameterLayouts {
  TensorId tensor = -1;
  Layout storage;
  Layout optimizer_state;

  bool operator==(const ParameterLayouts&) const = default;
};

class RuleCosts {
 public:
  // `gradients_as`: as in LoweringOptions. `reshards`: of the same mesh and cost model; null: a new
  // one.
  RuleCosts(const Graph& graph, const Mesh& mesh, const CostModel& costs, int microbatches,
            int64_t bucket_bytes, DType gradients_as = DType::f32,
            std::shared_ptr<const ReshardCosts> reshards = nullptr);

  // Returns the times of the operation's passes, its own communication, and the bytes that it saves
  // for the backward pass besides its output.
  Choice operation(OpId op, const OpStrategy& op_strategy) const;
  // Adds the costs of storing the parameter that is the operation's input `input` in these layouts,
  // except for the bytes that it returns.
  TransientBytes add_parameter(const OpStrategy& op_strategy, size_t input,
                               const ParameterLayouts& stored, Choice& choice) const;
  // Returns the part of Choice::backward_comm_s in which factors of gradients are gathered.
  double factors_s(OpId op, const OpStrategy& op_strategy) const;
  // Returns the cost of sending the gradient of the parameter that is the operation's input.
  Reshard sync(const OpStrategy& op_strategy, size_t input, const ParameterLayouts& stored) const;
  // Returns the cost for a microbatch's part of a tensor. `kept`: the backward pass needs the copy.
  Reshard reshard(TensorId tensor, const Layout& from, const Layout& to, bool kept) const;
  // Returns the tensor's bytes on the rank with the largest part, over all microbatches.
  double bytes(TensorId id, const Layout& layout) const;
  // Returns Problem::interference.
  double interference() const;

 private:
  class Sketch;

  // Returns the bytes of a value of the whole batch, which is that dimension; -1: none.
  double bytes(const Value& whole, int batch) const;

  // The batch need not divide by the number of microbatches: the first ones have one sequence more.
  enum class Part { larger, smaller };
  // Returns a microbatch's part of a shape with the batch as `dim`.
  Shape split(Shape shape, int dim, Part part) const;
  // Returns a microbatch's part of a tensor.
  Value value(TensorId id, const Layout& layout, Part part) const;
  // Averages the seconds of larger and smaller microbatches.
  double average(double larger, double smaller) const {
    return larger_ * larger + (1.0 - larger_) * smaller;
  }
  // Returns the seconds to sum a scalar of that layout over all ranks.
  double total_s(const Layout& layout) const;
  // Returns the cost for a value that is part of a bucket, whose sums are sent as `sums_as`.
  Reshard in_bucket(const Value& value, const Layout& to, std::optional<DType> sums_as = {}) const;

  const Graph& graph_;
  const Mesh mesh_;
  const CostModel& costs_;
  int microbatches_;
  double larger_ = 1.0;  // the part of microbatches that are larger
  int64_t bucket_bytes_;
  DType gradients_as_;
  double parameters_;  // elements of all parameters
  const std::shared_ptr<const ReshardCosts> reshards_;
};

}  // namespace hidup
