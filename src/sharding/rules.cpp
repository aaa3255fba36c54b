#include "sharding/rules.h"

namespace hidup {
namespace {

Rule batch_rule(const Graph& graph, const Op& op) {
  Rule rule{.name = "batch", .inputs = {}, .output = Placement::shard(0), .input_gradients = {}};
  for (const TensorId input : op.inputs) {
    const bool parameter = graph.tensor(input).role == Tensor::Role::parameter;
    rule.inputs.push_back(parameter ? Placement::replicate() : Placement::shard(0));
    rule.input_gradients.push_back(parameter ? Placement::partial() : Placement::shard(0));
  }
  if (op.kind == OpKind::cross_entropy) {
    rule.output = Placement::partial();  // a mean over the batch: every rank adds its rows
  }
  return rule;
}

}  // namespace

Placement gradient_of(const Placement& placement) {
  return placement.kind == Placement::Kind::partial ? Placement::replicate() : placement;
}

std::vector<Rule> rules_of(const Graph& graph, OpId op) {
  return {batch_rule(graph, graph.op(op))};
}

}  // namespace hidup
