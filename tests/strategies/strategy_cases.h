// Random and named strategies against the run on one rank: cases for all kinds of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "core/random.h"
#include "deck/deck.h"
#include "deck/model_deck.h"
#include "graph/graph.h"
#include "sharding/strategy.h"
#include "short_run.h"

namespace hidup {

// Random numbers that a seed repeats.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(random_stream(seed, "strategies")) {}
  size_t below(size_t n) { return random_.word(next_++) % n; }
  // Returns one of the values.
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  RandomStream random_;
  uint64_t next_ = 0;
};

inline constexpr int kStrategySteps = 3;
inline constexpr int64_t kStrategyVocab = 31;
// A vocabulary whose logits have padded rows, even divided by four ranks in unequal parts.
inline constexpr int64_t kPaddedVocab = 1031;

// The ranks that a strategy is tried on.
struct TriedRanks {
  int64_t size;
  // Trains for kStrategySteps steps on tokens below kStrategyVocab and compares with `expected`.
  // Returns the differences; empty where there are none.
  std::function<std::string(const Graph& graph, const Strategy& strategy, const ShortRun& expected,
                            const Bounds& bounds, const RunOptions& options)>
      compare;
  // Tries one out of so many cases with a named strategy; others on one rank more.
  int named_every = 1;
};

// Collective. Compares on rank 0, and empty on the others; with gradients in 16 bits also the
// replicas of gradients on all ranks, and the run with another one.
std::string compare_steps(const Graph& graph, const Strategy& strategy, Communicator& world,
                          const ShortRun& expected, const Bounds& bounds,
                          const RunOptions& options);

// Returns a small model with sizes that do not divide. No router means no experts.
Graph strategy_model(const std::string& family, const std::string& router = "", int64_t experts = 0,
                     std::optional<double> capacity_factor = {}, double dropout = 0.1);
// Returns a model with the experts of `moe`, always in the second of two blocks.
Graph strategy_model_of(const std::string& family, MoeDeck moe, double dropout = 0.1,
                        int64_t vocab = kStrategyVocab);
// Return three of five experts per token, or two whose weights are probabilities, without biases.
// Routers have their own losses: Switch's and the z loss, or GShard's.
MoeDeck three_experts_per_token();
MoeDeck two_with_gshard();
// Returns narrow experts beside two shared ones, chosen as DeepSeek-V3 does: by sigmoids and by
// biases that balance the loads.
MoeDeck shared_and_balanced();

// Returns one axis, or for every second number two on 4 ranks; the outer one of them has
// consecutive ranks in every second case.
Mesh strategy_mesh(int64_t ranks, uint64_t number);

// Adds two shares to every axis, which leave some ranks without work.
Mesh with_random_shares(Mesh mesh, Draw& draw);
// Returns whole, a part of some dimension, or all on the first rank, with a random share.
Placement random_storage(const Tensor& tensor, const Axis& axis, Draw& draw);
// Returns random rules, storages, recomputation, microbatches, groups and shares of the mesh.
Strategy random_strategy(const Graph& graph, const Mesh& mesh, Draw& draw);
// Adds random routes for the strategy's reshards and random algorithms for its collectives.
Strategy with_random_messages(const Graph& graph, Strategy strategy, Draw& draw);

// Returns the random strategy `number`, with random shares of rules, storage and state.
Strategy random_strategy_with_shares(const Graph& graph, int64_t ranks, uint64_t number);

// Runs random strategies with GoogleTest's checks; the first failure ends them. A strategy draws a
// rule for every operation, a storage for every parameter and its optimizer state, separately per
// axis, residency, recomputation, and numbers of microbatches and groups; every second one draws
// shares, too.
void expect_equal_under_random_strategies(const Graph& graph, const TriedRanks& ranks,
                                          int strategies);

// Runs named strategies with every number of microbatches from 1 to `microbatches`.
void expect_equal_under_named_strategies(const Graph& graph, const TriedRanks& ranks,
                                         int microbatches);

// Runs a sample of named strategies with the shares that the linear program finds for ranks of
// unequal paces.
void expect_equal_under_found_shares(const Graph& graph, const TriedRanks& ranks);

// Runs pipelines with a stage per rank.
void expect_equal_under_pipelines(const Graph& graph, const TriedRanks& ranks);

// Runs a sample of named strategies with the batch in several groups.
void expect_equal_in_groups(const Graph& graph, const TriedRanks& ranks);

// Runs a sample of strategies named per axis, and hsdp, on four ranks as 2 x 2.
void expect_equal_under_combinations(const Graph& graph, const TriedRanks& ranks);

// Random strategies with sums of gradients that are sent in bf16 and f16, named ones in bf16.
// Replicas have equal bits, and so have repeated runs.
void expect_near_with_short_gradients(const Graph& graph, const TriedRanks& ranks, int strategies);

// Does the same in bf16 and f16; `wide` is the model in f32. The model must be smooth: rounded
// differently, a learned router may choose another expert, and a relu (as in BERT) may pass or
// block a whole gradient.
void expect_equal_in_sixteen_bits(const Graph& wide, const TriedRanks& ranks);

}  // namespace hidup
