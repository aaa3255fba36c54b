#include "program/opcodes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

// Whether the ranks' parts of a tensor lie in it one behind the other.
bool parts_are_pieces(const Shape& shape, const Placement& cut) {
  return !cut.is_shard() || cut.first ||
         std::all_of(shape.begin(), shape.begin() + cut.dim, [](int64_t n) { return n == 1; });
}

// Axes along which the rule cuts the classes of a cross-entropy.
bool cuts_classes(const Graph& graph, OpId op, const Rule& rule) {
  const auto classes = graph.tensor(graph.op(op).inputs[0]).shape.size() - 1;
  return rule.inputs[0] == Placement::shard(static_cast<int>(classes));
}

}  // namespace

Opcode forward_opcode(OpKind kind) {
  static constexpr auto kOpcodes = std::to_array<std::pair<OpKind, Opcode>>({
      {OpKind::embedding, Opcode::embedding},
      {OpKind::positions, Opcode::positions},
      {OpKind::matmul, Opcode::matmul},
      {OpKind::bias, Opcode::bias},
      {OpKind::relu, Opcode::relu},
      {OpKind::gelu, Opcode::gelu},
      {OpKind::dropout, Opcode::dropout},
      {OpKind::add, Opcode::add},
      {OpKind::layer_norm, Opcode::layer_norm},
      {OpKind::attention, Opcode::attention},
      {OpKind::cross_entropy, Opcode::cross_entropy},
      {OpKind::route, Opcode::route},
      {OpKind::gate, Opcode::gate},
      {OpKind::expert_counts, Opcode::expert_counts},
      {OpKind::dispatch, Opcode::dispatch},
      {OpKind::expert_matmul, Opcode::expert_matmul},
      {OpKind::expert_bias, Opcode::expert_bias},
      {OpKind::combine, Opcode::combine},
  });
  static_assert(kOpcodes.size() == static_cast<size_t>(OpKind::combine) + 1);
  return std::ranges::find(kOpcodes, kind, &std::pair<OpKind, Opcode>::first)->second;
}

Opcode opcode_of(ReshardKind kind) {
  switch (kind) {
    case ReshardKind::all_gather:
      return Opcode::all_gather;
    case ReshardKind::broadcast:
      return Opcode::broadcast;
    case ReshardKind::all_reduce:
      return Opcode::all_reduce;
    case ReshardKind::reduce_scatter:
      return Opcode::reduce_scatter;
    case ReshardKind::all_to_all:
      return Opcode::all_to_all;
    case ReshardKind::slice:
      return Opcode::slice;
    case ReshardKind::place:
      return Opcode::place;
  }
  fail(ExitCode::internal, "a reshard of unknown kind");
}

Packing packing_of(Opcode opcode, bool several, const Shape& shape, const Placement& from,
                   const Placement& to) {
  const bool sends_parts = opcode == Opcode::reduce_scatter || opcode == Opcode::all_to_all;
  const bool gets_parts = opcode == Opcode::all_gather || opcode == Opcode::all_to_all;
  const bool exchanges = sends_parts || gets_parts;
  return {.sent = (exchanges && several) || (sends_parts && !parts_are_pieces(shape, to)),
          .received = ((exchanges || opcode == Opcode::broadcast) && several) ||
                      (gets_parts && !parts_are_pieces(shape, from))};
}

ClassStats class_stats(const Graph& graph, OpId op, const OpStrategy& ways, const Mesh& mesh) {
  ClassStats stats;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const Rule& rule = ways.rules[axis];
    if (cuts_classes(graph, op, rule)) {
      stats.parts *= mesh[axis].size;
      stats.made.push_back(Placement::shard(0));
      stats.needed.push_back(Placement::replicate());
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
