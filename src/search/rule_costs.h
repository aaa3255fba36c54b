// What an operation and a reshard cost on a rank, from a cost model: what lower() would emit for
// them, each for itself, and so without LoweringOptions::fuse: whether a product takes in its bias
// depends on the rules of several operations.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/problem.h"
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
  RuleCosts(const Graph& graph, const Mesh& mesh, const CostModel& costs, int microbatches,
            int64_t bucket_bytes)
      : graph_(graph),
        mesh_(mesh),
        costs_(costs),
        microbatches_(microbatches),
        bucket_bytes_(bucket_bytes) {}

  // Its passes: times, communication within it, what it keeps beside its output. `ways`: a rule
  // per axis.
  Choice operation(OpId op, const OpStrategy& ways) const;
  // Adds what the storage of a parameter costs that the operation uses as its input `input`.
  void add_parameter(const OpStrategy& ways, size_t input, const ParameterLayouts& stored,
                     Choice& choice) const;
  // A microbatch's part of a tensor brought from one layout to another. `kept`: the backward pass
  // needs the copy.
  Reshard reshard(TensorId tensor, const Layout& from, const Layout& to, bool kept) const;
  // Bytes of the tensor on a rank, of all microbatches.
  double bytes(TensorId tensor, const Layout& layout) const;
  // See Problem::interference.
  double interference() const;

 private:
  class Sketch;

  // `several`: together with others, so that messages are always packed and unpacked.
  Reshard reshard(const Value& value, const Layout& to, bool several) const;
  Reshard message(const Value& from, const Value& to, const Instruction& instruction,
                  bool several) const;
  // Of the value as a part of a bucket.
  Reshard in_bucket(const Value& value, const Layout& to) const;

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  int microbatches_;
  int64_t bucket_bytes_;
};

}  // namespace hidup
