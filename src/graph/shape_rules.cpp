#include "graph/shape_rules.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.h"
#include "graph/flops.h"

namespace hidup {
namespace {

void expect(bool fits, std::string_view wanted, Shapes inputs) {
  if (fits) {
    return;
  }
  std::string found;
  for (const Shape& shape : inputs) {
    found += (found.empty() ? "" : " and ") + to_string(shape);
  }
  fail(ExitCode::usage, "expected {}, found {}", wanted, found);
}

bool ends_with(const Shape& shape, const Shape& tail) {
  return shape.size() >= tail.size() && std::equal(tail.rbegin(), tail.rend(), shape.rbegin());
}

}  // namespace

Shape leading(const Shape& shape, size_t dims) {
  return {shape.begin(), shape.begin() + static_cast<Shape::difference_type>(dims)};
}

Shape like_first(Shapes in, const OpAttributes&) {
  return in[0];
}

Shape embedding_shape(Shapes in, const OpAttributes&) {
  expect(in[1].size() == 2, "tokens[..] and table[vocab, hidden]", in);
  Shape shape = in[0];
  shape.push_back(in[1][1]);
  return shape;
}

Shape positions_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 3 && in[0][2] % 2 == 0, "x[batch, sequence, hidden], hidden even", in);
  return in[0];
}

Shape rotary_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() >= 4 && in[0].back() % 2 == 0 && in[0].back() > 0,
         "x[batch, sequence, .., head], head even", in);
  return in[0];
}

Shape prepend_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 3 && in[1] == Shape{in[0][2]}, "x[batch, sequence, n] and token[n]", in);
  return {in[0][0], in[0][1] + 1, in[0][2]};
}

Shape first_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 3 && in[0][1] > 0, "x[batch, sequence, n] with a position", in);
  return {in[0][0], in[0][2]};
}

Shape matmul_shape(Shapes in, const OpAttributes& attributes) {
  const auto& matmul = std::get<MatmulAttributes>(attributes);
  const Shape& x = in[0];
  const auto [summed, columns] = weight_shape(in[1], matmul);
  expect(!columns.empty() && ends_with(x, summed),
         fmt::format("x[.., k] and weight{} with k of {} dimension(s)",
                     matmul.transposed ? "[.., k]" : "[k, ..]", matmul.contract),
         in);
  Shape shape = leading(x, x.size() - summed.size());
  shape.insert(shape.end(), columns.begin(), columns.end());
  return shape;
}

Shape bias_shape(Shapes in, const OpAttributes&) {
  expect(!in[1].empty() && ends_with(in[0], in[1]), "x[.., n] and bias[n]", in);
  return in[0];
}

Shape add_shape(Shapes in, const OpAttributes&) {
  expect(in[0] == in[1], "two tensors of one shape", in);
  return in[0];
}

Shape norm_shape(Shapes in, const OpAttributes&) {
  const bool has_bias = in.size() > 2;
  expect(in[1].size() == 1 && (!has_bias || in[1] == in[2]) && ends_with(in[0], in[1]),
         has_bias ? "x[.., n], weight[n] and bias[n]" : "x[.., n] and weight[n]", in);
  return in[0];
}

Shape attention_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 5 && in[0][2] == 3, "qkv[batch, sequence, 3, heads, head]", in);
  return {in[0][0], in[0][1], in[0][3], in[0][4]};
}

Shape grouped_attention_shape(Shapes in, const OpAttributes&) {
  const Shape& q = in[0];
  expect(q.size() == 5 && in[1] == Shape{q[0], q[1], q[2], q[4]} && in[2] == in[1],
         "q[batch, sequence, kv_heads, group, head], and k and v[batch, sequence, kv_heads, head]",
         in);
  return q;
}

Shape cross_entropy_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() >= 2 && leading(in[0], in[0].size() - 1) == in[1],
         "logits[.., vocab] and targets[..]", in);
  return {};
}

Shape route_shape(Shapes in, const OpAttributes& attributes) {
  const int64_t choices = std::get<RouteAttributes>(attributes).choices;
  expect(in[0].size() == 3 && in[0][2] >= choices, "logits[batch, sequence, experts]", in);
  return {in[0][0], in[0][1], choices};
}

Shape route_biased_shape(Shapes in, const OpAttributes& attributes) {
  expect(in[0].size() == 3 && in[1] == Shape{in[0][2]},
         "logits[batch, sequence, experts] and bias[experts]", in);
  return route_shape(in, attributes);
}

Shape route_chosen_shape(Shapes in, const OpAttributes& attributes) {
  Shape routing = route_shape(in, attributes);
  expect(in[1] == routing, "logits[batch, sequence, experts] and chosen[batch, sequence, choices]",
         in);
  return routing;
}

Shape gate_shape(Shapes in, const OpAttributes& attributes) {
  expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2) &&
             in[0][2] == std::get<GateAttributes>(attributes).experts,
         "logits[batch, sequence, experts] and routing[batch, sequence, choices]", in);
  return in[1];
}

// Buffers are [experts, batch, capacity, width], so that the rows of an expert lie together.

Shape expert_counts_shape(Shapes in, const OpAttributes& attributes) {
  return {std::get<ExpertAttributes>(attributes).experts, in[0][0]};
}

Shape round_counts_shape(Shapes in, const OpAttributes& attributes) {
  expect(in[0].size() == 2, "counts[experts, batch]", in);
  if (std::get<RoundAttributes>(attributes).rows == 0) {
    fail(ExitCode::usage, "expected rows, the rows of every expert and sequence in the round");
  }
  return in[0];
}

Shape dispatch_shape(Shapes in, const OpAttributes& attributes) {
  const auto& [capacity, experts] = std::get<ExpertAttributes>(attributes);
  expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2),
         "x[batch, sequence, width] and routing[batch, sequence, choices]", in);
  return {experts, in[0][0], capacity, in[0][2]};
}

Shape expert_matmul_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 4 && in[1].size() == 3 && in[0][0] == in[1][0] && in[0][3] == in[1][1] &&
             leading(in[0], 2) == in[2],
         "x[experts, batch, capacity, k], weight[experts, k, n] and counts[experts, batch]", in);
  return {in[0][0], in[0][1], in[0][2], in[1][2]};
}

Shape expert_bias_shape(Shapes in, const OpAttributes&) {
  expect(in[0].size() == 4 && in[1] == Shape{in[0][0], in[0][3]} && leading(in[0], 2) == in[2],
         "x[experts, batch, capacity, n], bias[experts, n] and counts[experts, batch]", in);
  return in[0];
}

Shape combine_shape(Shapes in, const OpAttributes& attributes) {
  const auto& [capacity, experts] = std::get<ExpertAttributes>(attributes);
  expect(in[0].size() == 4 && in[1].size() == 3 && in[1] == in[2] && in[0][1] == in[1][0] &&
             in[0][0] == experts && in[0][2] == capacity,
         "buffer[experts, batch, capacity, width] of the routing's experts and capacity, "
         "routing[batch, sequence, choices] and weights like it",
         in);
  return {in[1][0], in[1][1], in[0][3]};
}

// Packed rows are [experts, batch, mean rows, width]: a token's choices differ, so every sequence
// has sequence x choices rows of all experts together. With even loads, rounds after the first have
// none, but a dimension has one element at least.
Shape expert_pack_shape(Shapes in, const OpAttributes& attributes) {
  const auto& [capacity, experts, round] = std::get<PackAttributes>(attributes);
  expect(in[0].size() == 3 && in[1].size() == 3 && leading(in[0], 2) == leading(in[1], 2) &&
             in[2] == Shape{experts, in[0][0]} && capacity == in[1][1],
         "x[batch, sequence, width], routing[batch, sequence, choices] that drops nothing (its "
         "capacity is the sequence) and counts[experts, batch]",
         in);
  const int64_t mean = (in[1][1] * in[1][2] + experts - 1) / experts;
  const int64_t of_round = round.first > 0 ? 1 : std::min(mean, round.rows);
  return {experts, in[0][0], round.rows > 0 ? of_round : mean, in[0][2]};
}

Shape expert_unpack_shape(Shapes in, const OpAttributes& attributes) {
  const int64_t experts = std::get<PackAttributes>(attributes).experts;
  expect(in[0].size() == 4 && in[1].size() == 3 && in[1] == in[2] && in[0][1] == in[1][0] &&
             in[3] == Shape{experts, in[0][1]} && in[0][0] == experts,
         "rows[experts, batch, mean, width] of the routing's experts, routing[batch, sequence, "
         "choices], weights like it and counts[experts, batch]",
         in);
  return {in[1][0], in[1][1], in[0][3]};
}

}  // namespace hidup
