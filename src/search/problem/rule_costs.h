// What an operation and a reshard cost on a rank, by a cost model. Each is costed by itself as
// lower() would emit it without LoweringOptions::fuse, because whether a product is fused with its
// bias depends on the rules of several operations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/problem/passing_bytes.h"
#include "search/problem/problem.h"
#include "search/problem/reshard_costs.h"
#include "sharding/strategy.h"

namespace hidup {

// Where a parameter of an operation is stored.
struct ParameterLayouts {
  TensorId tensor = -1;
  Layout storage;
  Layout optimizer_state;

  bool operator==(const ParameterLayouts&) const = default;
};

class RuleCosts {
 public:
  // `gradients_as`: as LoweringOptions. `reshards`: of the same mesh and model of costs; null: its
  // own.
  RuleCosts(const Graph& graph, const Mesh& mesh, const CostModel& costs, int microbatches,
            int64_t bucket_bytes, DType gradients_as = DType::f32,
            std::shared_ptr<const ReshardCosts> reshards = nullptr);

  // The times of its passes, its own communication, and the bytes that it saves for the backward
  // pass beside its output.
  Choice operation(OpId op, const OpStrategy& op_strategy) const;
  // Adds the costs of storing a parameter, the operation's input `input`, in these layouts, but for
  // what it returns.
  PassingBytes add_parameter(const OpStrategy& op_strategy, size_t input,
                             const ParameterLayouts& stored, Choice& choice) const;
  // For one microbatch's part of a tensor. `kept`: the backward pass needs the copy.
  Reshard reshard(TensorId tensor, const Layout& from, const Layout& to, bool kept) const;
  // Bytes of the tensor on the rank that has most of it, of all microbatches.
  double bytes(TensorId tensor, const Layout& layout) const;
  // See Problem::interference.
  double interference() const;

 private:
  class Sketch;

  // Of a value with the batch as that dimension; -1: it has none.
  double bytes(const Shape& shape, int batch, DType dtype, const Layout& layout) const;

  // The batch need not divide by the number of microbatches: the first ones have one sequence more.
  enum class Part { larger, smaller };
  // A microbatch's part of a shape with the batch as `dim`.
  Shape split(Shape shape, int dim, Part part) const;
  // Of a larger and a smaller microbatch's seconds.
  double average(double larger, double smaller) const {
    return larger_ * larger + (1.0 - larger_) * smaller;
  }
  // Of summing a scalar in that layout for all ranks.
  double total_s(const Layout& layout) const;
  // For a value that is a part of a bucket, whose sums are sent so.
  Reshard in_bucket(const Value& value, const Layout& to, std::optional<DType> sums_as = {}) const;

  const Graph& graph_;
  const Mesh mesh_;
  const CostModel& costs_;
  int microbatches_;
  double larger_ = 1.0;  // part of the microbatches; times are those of the average one
  int64_t bucket_bytes_;
  DType gradients_as_;
  double parameters_;  // elements of all
  const std::shared_ptr<const ReshardCosts> reshards_;
};

}  // namespace hidup
