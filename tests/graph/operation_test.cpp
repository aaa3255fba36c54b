#include "graph/operation.h"
#include "graph/flops.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace hidup {
namespace {

Shape infer(OpKind kind, const std::vector<Shape>& inputs) {
  return infer_shape(kind, inputs, spec_of(kind).attributes);
}
Shape infer(OpKind kind, const std::vector<Shape>& inputs, const OpAttributes& attributes) {
  return infer_shape(kind, inputs, attributes);
}

TEST(Operations, TableIsInTheOrderOfKinds) {
  for (const OperationSpec& spec : all_operations()) {
    EXPECT_EQ(&spec_of(spec.kind), &spec);
    EXPECT_EQ(find_operation(spec.name), &spec);
  }
  EXPECT_EQ(find_operation("matmull"), nullptr);
}

TEST(InferShape, OfEveryOperation) {
  EXPECT_EQ(infer(OpKind::embedding, {{4, 7}, {31, 12}}), (Shape{4, 7, 12}));
  EXPECT_EQ(infer(OpKind::positions, {{4, 7, 12}}), (Shape{4, 7, 12}));
  EXPECT_EQ(infer(OpKind::matmul, {{4, 7, 12}, {12, 3, 2, 6}}), (Shape{4, 7, 3, 2, 6}));
  EXPECT_EQ(infer(OpKind::matmul, {{4, 7, 2, 6}, {2, 6, 12}}, MatmulAttributes{.contract = 2}),
            (Shape{4, 7, 12}));
  EXPECT_EQ(infer(OpKind::matmul, {{4, 7, 12}, {3, 5, 12}}, MatmulAttributes{.transposed = true}),
            (Shape{4, 7, 3, 5}));
  EXPECT_EQ(infer(OpKind::matmul, {{4, 7, 2, 6}, {12, 2, 6}},
                  MatmulAttributes{.contract = 2, .transposed = true}),
            (Shape{4, 7, 12}));
  EXPECT_EQ(infer(OpKind::prepend, {{4, 64, 12}, {12}}), (Shape{4, 65, 12}));
  EXPECT_EQ(infer(OpKind::first, {{4, 65, 12}}), (Shape{4, 12}));
  EXPECT_EQ(infer(OpKind::gelu, {{4, 7}}), (Shape{4, 7}));
  EXPECT_EQ(infer(OpKind::silu, {{4, 7}}), (Shape{4, 7}));
  EXPECT_EQ(infer(OpKind::bias, {{4, 7, 3, 2, 6}, {3, 2, 6}}), (Shape{4, 7, 3, 2, 6}));
  EXPECT_EQ(infer(OpKind::add, {{4, 7}, {4, 7}}), (Shape{4, 7}));
  EXPECT_EQ(infer(OpKind::layer_norm, {{4, 7, 12}, {12}, {12}}), (Shape{4, 7, 12}));
  EXPECT_EQ(infer(OpKind::attention, {{4, 7, 3, 2, 6}}), (Shape{4, 7, 2, 6}));
  EXPECT_EQ(infer(OpKind::cross_entropy, {{4, 7, 31}, {4, 7}}), Shape{});
}

TEST(InferShape, RefusesWhatDoesNotFit) {
  EXPECT_THROW(infer(OpKind::matmul, {{4, 7, 12}, {13, 5}}), Error);
  EXPECT_THROW(infer(OpKind::matmul, {{4, 12}, {12}}), Error);
  EXPECT_THROW(infer(OpKind::matmul, {{4, 7, 12}, {12, 5}}, MatmulAttributes{.transposed = true}),
               Error);
  EXPECT_THROW(infer(OpKind::matmul, {{4, 12}, {12}}, MatmulAttributes{.transposed = true}), Error);
  EXPECT_THROW(
      infer(OpKind::matmul, {{12}, {5, 12}}, MatmulAttributes{.contract = 2, .transposed = true}),
      Error);
  EXPECT_THROW(infer(OpKind::bias, {{4, 7}, {4}}), Error);
  EXPECT_THROW(infer(OpKind::add, {{4, 7}, {7, 4}}), Error);
  EXPECT_THROW(infer(OpKind::add, {{4, 7}}), Error);
  EXPECT_THROW(infer(OpKind::layer_norm, {{4, 12}, {12}, {11}}), Error);
  EXPECT_THROW(infer(OpKind::attention, {{4, 7, 12}}), Error);
  EXPECT_THROW(infer(OpKind::positions, {{4, 7, 5}}), Error);
  EXPECT_THROW(infer(OpKind::prepend, {{4, 7, 5}, {4}}), Error);
  EXPECT_THROW(infer(OpKind::prepend, {{7, 5}, {5}}), Error);
  EXPECT_THROW(infer(OpKind::first, {{4, 0, 5}}), Error);
  EXPECT_THROW(infer(OpKind::first, {{4, 5}}), Error);
  EXPECT_THROW(infer(OpKind::cross_entropy, {{4, 7, 31}, {4, 8}}), Error);
  EXPECT_THROW(infer(OpKind::embedding, {{4, 7}, {31}}), Error);
}

TEST(Flops, CountMultiplyAddsTwice) {
  const std::vector<Shape> product = {{4, 7, 12}, {12, 5}};
  EXPECT_DOUBLE_EQ(forward_flops(OpKind::matmul, product, {4, 7, 5}, MatmulAttributes{}),
                   2.0 * 28 * 12 * 5);
  EXPECT_DOUBLE_EQ(forward_flops(OpKind::matmul, std::vector<Shape>{{4, 7, 12}, {5, 12}}, {4, 7, 5},
                                 MatmulAttributes{.transposed = true}),
                   2.0 * 28 * 12 * 5);
  // Attention is two products over all pairs of positions: 2 x 2 x batch x heads x s x s x head.
  const std::vector<Shape> qkv = {{2, 8, 3, 4, 16}};
  EXPECT_DOUBLE_EQ(
      forward_flops(OpKind::attention, qkv, {2, 8, 4, 16}, AttentionAttributes{.causal = false}),
      4.0 * 2 * 4 * 8 * 8 * 16);
  EXPECT_DOUBLE_EQ(forward_flops(OpKind::attention, qkv, {2, 8, 4, 16}, AttentionAttributes{}),
                   4.0 * 2 * 4 * (8 * 9 / 2) * 16);
}

}  // namespace
}  // namespace hidup
