#include "program/class_stats.h"

namespace hidup {
namespace {

// Returns true where the rule cuts the classes of a cross-entropy.
bool cuts_classes(const Graph& graph, OpId op, const Rule& rule) {
  const auto classes = graph.tensor(graph.op(op).inputs[0]).shape.size() - 1;
  return rule.inputs[0].is_shard() && rule.inputs[0].dim == static_cast<int>(classes);
}

}  // namespace

ClassStats class_stats(const Graph& graph, OpId op, const OpStrategy& rules, const Mesh& mesh) {
  ClassStats stats;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const Rule& rule = rules.rules[axis];
    if (cuts_classes(graph, op, rule)) {
      const ShareNumber share = equal_among(mesh[axis], rule.share);
      stats.parts *= static_cast<int64_t>(ranks_with(mesh[axis], share).size());
      stats.made.push_back(Placement::shard(0, share));
      stats.needed.push_back(with_share(Placement::replicate(), mesh[axis], share));
    } else {
      Placement rows = rule.saved;
      rows.dim += rows.is_shard() ? 1 : 0;
      stats.made.push_back(rows);
      stats.needed.push_back(rows);
    }
  }
  return stats;
}

}  // namespace hidup
