#include "graph/batch.h"

#include <gtest/gtest.h>

#include "graph/text.h"

namespace hidup {
namespace {

Graph graph_of(const std::string& operations) {
  return parse_graph(
      "graph g\ninput tokens : i32[4, 6]\ninput targets : i32[4, 6]\n"
      "parameter table : f32[8, 8] = zeros\n" +
          operations + "loss = cross_entropy(y, targets)\n",
      "g");
}

TEST(Batch, CanBeSplitWhereEverythingComesFromTheInputs) {
  const Graph graph =
      graph_of("parameter w : f32[8, 8] = zeros\nx = embedding(tokens, table)\ny = matmul(x, w)\n");
  EXPECT_EQ(batch_of(graph), 4);
  EXPECT_EQ(batch_obstacle(graph), "");
}

// Buffers have the batch after the experts, and their readers expect it there.
constexpr const char* kBuffer =
    "parameter r : f32[8, 4] = zeros\n"
    "x = embedding(tokens, table)\nlogits = matmul(x, r)\n"
    "routing = route(logits) {capacity=6}\ngates = gate(logits, routing)\n"
    "buffer = dispatch(x, routing)\nactive = relu(buffer)\n";

TEST(Batch, CannotBeAccumulatedWhereRoutersHaveLossesOfTheirOwn) {
  const std::string operations = std::string(kBuffer) + "y = combine(active, routing, gates)\n";
  EXPECT_EQ(accumulate_obstacle(graph_of(operations)), "");
  std::string with_loss = operations;
  with_loss.replace(with_loss.find("capacity=6"), 10, "capacity=6, z_loss=0.1");
  EXPECT_EQ(batch_obstacle(graph_of(with_loss)), "");
  EXPECT_EQ(accumulate_obstacle(graph_of(with_loss)),
            "the losses of routing are of the whole batch, not of a group of it");
  EXPECT_EQ(accumulate_obstacle(graph_of("parameter p : f32[4, 6, 8] = zeros\n"
                                         "x = embedding(tokens, table)\ny = add(x, p)\n")),
            "the batch of this graph cannot be split: y has the parameter p as b");
}

TEST(Batch, OfABufferIsBehindTheExperts) {
  const Graph graph = graph_of(std::string(kBuffer) + "y = combine(active, routing, gates)\n");
  EXPECT_EQ(batch_obstacle(graph), "");
  EXPECT_EQ(graph.tensor(graph.find("active")).batch_dim(), 1);
  EXPECT_EQ(graph.tensor(graph.find("y")).batch_dim(), 0);
  EXPECT_EQ(with_batch(graph, 3).tensor(graph.find("active")).shape, (Shape{4, 3, 6, 8}));
}

TEST(Batch, OfPackedRowsCanBeSplit) {
  const Graph graph =
      graph_of(std::string(kBuffer) +
               "counts = expert_counts(routing)\nrows = expert_pack(x, routing, counts)\n"
               "z = relu(rows)\ny = expert_unpack(z, routing, gates, counts)\n");
  EXPECT_EQ(batch_obstacle(graph), "");
}

TEST(Batch, CannotBeSplitWhereAnOperationDoesNotTakeItForTheBatch) {
  const std::string rows = std::string(kBuffer) +
                           "parameter v : f32[6, 8, 8] = zeros\n"
                           "rows = matmul(active, v) {contract=2}\n"
                           "y = combine(active, routing, gates)\n";
  EXPECT_EQ(batch_obstacle(graph_of(rows)), "");
  struct Obstacle {
    std::string operations;
    const char* text;
  };
  for (const Obstacle& obstacle : {
           Obstacle{"parameter p : f32[4, 6, 8] = zeros\nx = embedding(tokens, table)\n"
                    "y = add(x, p)\n",
                    "y has the parameter p as b"},
           Obstacle{"parameter w : f32[8, 8] = zeros\nparameter b : f32[8] = zeros\n"
                    "x = embedding(tokens, table)\nv = bias(w, b)\ny = matmul(x, v)\n",
                    "v has the parameter w as x"},
           // The number of columns equals the number of sequences that the product sums over.
           Obstacle{"parameter w : f32[4, 6, 8, 4, 6, 8] = zeros\nx = embedding(tokens, table)\n"
                    "y = matmul(x, w) {contract=3}\n",
                    "no dimension of y is the batch"},
           Obstacle{rows + "z = positions(rows)\n", "z takes dimension 0 of rows for the batch"},
           // There are as many experts as sequences, so the shapes fit.
           Obstacle{rows + "input others : f32[4, 4, 8]\nz = add(others, rows)\n",
                    "z takes dimension 0 of rows for the batch"},
       }) {
    EXPECT_EQ(batch_obstacle(graph_of(obstacle.operations)), obstacle.text);
  }
}

TEST(Batch, OfAnotherSize) {
  const Graph graph = graph_of(
      "x = embedding(tokens, table)\nparameter w : f32[8, 8] = uniform(0.5) decay\n"
      "z = dropout(x) {p=0.25}\ny = matmul(z, w)\n");
  const Graph half = with_batch(graph, 2);
  EXPECT_EQ(batch_of(half), 2);
  EXPECT_EQ(half.tensor(half.find("y")).shape, (Shape{2, 6, 8}));
  EXPECT_EQ(half.find("w"), graph.find("w"));
  EXPECT_EQ(print_graph(with_batch(half, 4)), print_graph(graph));
}

TEST(WithBatch, KeepsThePrecision) {
  const Graph graph = parse_graph(
      "graph g\ninput tokens : i32[4, 6]\ninput targets : i32[4, 6]\n"
      "parameter table : bf16[10, 8] = ones\nparameter w : bf16[8, 10] = ones\n"
      "x = embedding(tokens, table)\ny = matmul(x, w)\nloss = cross_entropy(y, targets)\n",
      "g");
  const Graph smaller = with_batch(graph, 2);
  for (const char* name : {"table", "x", "y"}) {
    EXPECT_EQ(smaller.tensor(smaller.find(name)).dtype, DType::bf16) << name;
  }
}

}  // namespace
}  // namespace hidup
