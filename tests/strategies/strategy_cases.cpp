#include "strategy_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>

#include "core/images.h"
#include "cost/roofline.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/batch.h"
#include "models/transformer.h"
#include "program/lower.h"
#include "search/named/named_strategies.h"
#include "search/named/pipeline.h"
#include "search/new_shares.h"
#include "sharding/with_shares.h"

namespace hidup {
namespace {

constexpr float kNowhere = std::numeric_limits<float>::max();

}  // namespace

namespace {

// Where ranks have the same part of a gradient, and other bits in it; empty: nowhere.
std::string unequal_replicas(Communicator& world, Executor& executor) {
  const Program& program = executor.program();
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    if (value.role != Value::Role::gradient) {
      continue;
    }
    std::vector<float> whole(static_cast<size_t>(elements(value.shape)), kNowhere);
    const std::vector<float> mine = executor.read(id);
    const Region region = program.region(id, world.rank());
    for (int64_t i = 0; i < region.elements(); ++i) {
      whole[static_cast<size_t>(region.global_index(i))] = mine[static_cast<size_t>(i)];
    }
    const std::vector<std::byte> all = world.all_gather(std::as_bytes(std::span(whole)));
    const auto* others = reinterpret_cast<const float*>(all.data());
    for (size_t i = 0; i < whole.size(); ++i) {
      float first = kNowhere;
      for (size_t rank = 0; rank < static_cast<size_t>(world.size()); ++rank) {
        const float own = others[rank * whole.size() + i];
        first = first == kNowhere ? own : first;
        if (own != kNowhere && own != first) {
          return value.name + " has other bits on other ranks\n";
        }
      }
    }
  }
  return "";
}

}  // namespace

std::string compare_steps(const Graph& graph, const Strategy& strategy, Communicator& world,
                          const ShortRun& expected, const Bounds& bounds,
                          const RunOptions& options) {
  std::string found;
  const auto run = [&](const AfterStep& after_step) {
    return run_steps(graph, strategy, world, kStrategySteps, kStrategyVocab, after_step, 0,
                     options);
  };
  if (options.gradients_as == DType::f32) {
    const ShortRun once = run(nullptr);
    return world.rank() == 0 ? differences(expected, once, bounds) : "";
  }
  const ShortRun once = run([&](Executor& executor, int step) {
    found += step > 0 ? unequal_replicas(world, executor) : "";
  });
  const ShortRun again = run(nullptr);
  if (world.rank() != 0) {
    return "";
  }
  found += once == again ? "" : "another run has other bits\n";
  return found + differences(expected, once, bounds);
}

Mesh with_random_shares(Mesh mesh, Draw& draw) {
  for (Axis& axis : mesh) {
    for (int number = 0; number < 2; ++number) {
      Share share;
      for (int64_t rank = 0; rank < axis.size; ++rank) {
        share.push_back(static_cast<int64_t>(draw.below(4)));
      }
      share[draw.below(share.size())] += 1;
      axis.shares.push_back(share);
    }
  }
  return mesh;
}

namespace {

// Returns the equal share, one of the axis's, or one rank; the equal one where the axis has none.
ShareNumber random_share(const Axis& axis, Draw& draw) {
  if (axis.shares.empty()) {
    return {};
  }
  const size_t choice = draw.below(axis.shares.size() + 2);
  return choice <= axis.shares.size()
             ? ShareNumber::of(static_cast<int64_t>(choice))
             : ShareNumber::only(static_cast<int64_t>(draw.below(static_cast<size_t>(axis.size))));
}

}  // namespace

Placement random_storage(const Tensor& tensor, const Axis& axis, Draw& draw) {
  const size_t dims = tensor.shape.size();
  const size_t choice = draw.below(2 * dims + 1);
  if (choice == 2 * dims) {
    return Placement::on_first_rank();
  }
  return choice < dims ? Placement::shard(static_cast<int>(choice), random_share(axis, draw))
                       : with_share(Placement::replicate(), axis, random_share(axis, draw));
}

Strategy random_strategy(const Graph& graph, const Mesh& mesh, Draw& draw) {
  Strategy strategy = replicated_strategy(graph, mesh);
  strategy.name = "random";
  strategy.defer_gradients = draw.below(4) == 0;
  const auto batch = static_cast<size_t>(batch_of(graph));
  strategy.microbatches = static_cast<int>(1 + draw.below(std::min<size_t>(batch, 4)));
  const size_t most = batch / static_cast<size_t>(strategy.microbatches);
  strategy.accumulate =
      accumulate_obstacle(graph).empty() ? static_cast<int>(1 + draw.below(most)) : 1;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const std::vector<Rule> rules = rules_of(graph, op);
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      Rule& rule = strategy.ops[static_cast<size_t>(op)].rules[axis];
      rule = rules[draw.below(rules.size())];
      const ShareNumber share = random_share(mesh[axis], draw);
      if (takes_share(rule, mesh[axis], share)) {
        rule = with_share(rule, mesh[axis], share);
      }
    }
    strategy.ops[static_cast<size_t>(op)].recompute = draw.below(2) == 0;
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    const Tensor& tensor = graph.tensor(parameter.tensor);
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      parameter.storage[axis] = random_storage(tensor, mesh[axis], draw);
      parameter.optimizer_state[axis] = random_storage(tensor, mesh[axis], draw);
    }
    parameter.residency = draw.below(2) == 0 ? Residency::pass : Residency::step;
  }
  return strategy;
}

namespace {

// Adds random routes for reshards on several axes.
Strategy with_random_routes(const Graph& graph, Strategy strategy, Draw& draw) {
  const Mesh mesh = with_equal_shares(strategy.mesh);
  std::vector<RouteChoice> chosen;
  lower(graph, strategy, {}, [&](const RouteDemand& demand) {
    const Layout& from = demand.value.layout;
    const auto known = std::ranges::find_if(chosen, [&](const RouteChoice& choice) {
      return choice.from == from && choice.to == demand.to && choice.bytes == demand.bytes;
    });
    if (known != chosen.end()) {
      return known->steps;
    }
    const std::vector<Route> routes = reshard_routes(from, demand.to, mesh);
    chosen.push_back({from, demand.to, demand.bytes, routes[draw.below(routes.size())]});
    return chosen.back().steps;
  });
  strategy.routes = std::move(chosen);
  return strategy;
}

// Adds random algorithms for collectives of some sizes.
Strategy with_random_algorithms(Strategy strategy, Draw& draw) {
  for (const ReshardKind collective : kReshardKinds) {
    const std::span<const CollectiveAlgorithm> algorithms = algorithms_of(collective);
    for (size_t axis = 0; axis < strategy.mesh.size() && algorithms.size() > 1; ++axis) {
      for (const double bytes : {0.0, 300.0, 3000.0}) {
        strategy.algorithms.push_back(
            {collective, axis, bytes, algorithms[draw.below(algorithms.size())]});
      }
    }
  }
  return strategy;
}

}  // namespace

Strategy with_random_messages(const Graph& graph, Strategy strategy, Draw& draw) {
  strategy = with_random_routes(graph, std::move(strategy), draw);
  return with_random_algorithms(std::move(strategy), draw);
}

namespace {

void expect_equal(const Graph& graph, const Strategy& strategy, const ShortRun& expected,
                  const TriedRanks& ranks, const std::string& what, const RunOptions& options = {},
                  const Bounds& bounds = {}) {
  EXPECT_EQ(ranks.compare(graph, strategy, expected, bounds, options), "")
      << what << "\n"
      << print_strategy(graph, strategy);
}

// Every second case has room for the mean rows of experts without capacity, and takes the others in
// rounds.
std::optional<double> slack_of(uint64_t number) {
  return number % 2 == 0 ? std::nullopt : std::optional(1.0);
}

}  // namespace

Graph strategy_model(const std::string& family, const std::string& router, int64_t experts,
                     std::optional<double> capacity_factor, double dropout) {
  return strategy_model_of(
      family, {.experts = experts, .router = router, .capacity_factor = capacity_factor}, dropout);
}

MoeDeck three_experts_per_token() {
  return {.experts = 5,
          .router = "topk",
          .top_k = 3,
          .balance_loss = 0.5,
          .z_loss = 0.2,
          .balance_speed = 0.03};
}

MoeDeck shared_and_balanced() {
  return {.experts = 5,
          .router = "topk",
          .top_k = 3,
          .capacity_factor = 1.25,
          .bias = "off",
          .score = "sigmoid",
          .routed_scaling = 2.5,
          .balance_speed = 0.05,
          .shared_experts = 2,
          .ffn = 7};
}

MoeDeck two_with_gshard() {
  return {.experts = 3,
          .router = "topk",
          .top_k = 2,
          .normalize = "off",
          .capacity_factor = 1.25,
          .balance_loss = 10.0,
          .balance = "gshard",
          .bias = "off"};
}

Graph strategy_model_of(const std::string& family, MoeDeck moe, double dropout, int64_t vocab) {
  moe.every = 2;
  Deck deck;
  deck.model = {.family = family,
                .layers = 2,
                .hidden = 12,
                .ffn = 10,
                .heads = 3,
                .kv_heads = 1,  // llama's, which all heads share
                .sequence = family == "vit" ? kImagePositions : 7,
                .dropout = dropout,
                .moe = moe};
  deck.train->batch = 5;
  return build_model(deck, vocab);
}

Mesh strategy_mesh(int64_t ranks, uint64_t number) {
  if (ranks != 4 || number % 2 == 0) {
    return {{"ranks", ranks}};
  }
  const int node_numbered = number % 4 == 3 ? 1 : 0;
  return {{.name = "node", .size = 2, .numbered = node_numbered},
          {.name = "core", .size = 2, .numbered = 1 - node_numbered}};
}

Strategy random_strategy_with_shares(const Graph& graph, int64_t ranks, uint64_t number) {
  Draw draw(number);
  const Mesh mesh = with_random_shares(strategy_mesh(ranks, number), draw);
  return random_strategy(graph, mesh, draw);
}

void expect_equal_under_random_strategies(const Graph& graph, const TriedRanks& ranks,
                                          int strategies) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(strategies); ++seed) {
    Draw draw(seed);
    const Mesh equal = strategy_mesh(ranks.size, seed / 2);
    const Mesh mesh = seed % 2 == 0 ? equal : with_random_shares(equal, draw);
    const Strategy strategy = with_random_messages(graph, random_strategy(graph, mesh, draw), draw);
    expect_equal(graph, strategy, expected, ranks, "random strategy " + std::to_string(seed),
                 {.expert_slack = slack_of(seed / 2)});
    if (testing::Test::HasFailure()) {
      return;  // one is enough to read
    }
  }
}

void expect_equal_under_named_strategies(const Graph& graph, const TriedRanks& ranks,
                                         int microbatches) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  int64_t cases = ranks.size;
  for (const NamedStrategy& named : named_strategies()) {
    for (int number = 1; number <= microbatches; ++number) {
      if (cases++ % ranks.named_every != 0) {
        continue;
      }
      const Mesh mesh = strategy_mesh(ranks.size, static_cast<uint64_t>(number));
      Strategy strategy = named_strategy(named.name, graph, mesh);
      strategy.microbatches = number;
      expect_equal(graph, strategy, expected, ranks, std::string(named.name),
                   {.expert_slack = slack_of(static_cast<uint64_t>(cases / ranks.named_every))});
    }
  }
}

namespace {

// Tokens, features and state have shares of their own, one of them equal.
void expect_equal_under_several_shares(const Graph& graph, const ShortRun& expected,
                                       const TriedRanks& ranks) {
  const auto size = static_cast<size_t>(ranks.size);
  Share rising(size);
  std::iota(rising.begin(), rising.end(), 1);
  const Share falling(rising.rbegin(), rising.rend());
  const Share equal(size, 1);
  for (const char* name : {"zero1", "megatron", "megatron-sp", "ep-deepspeed"}) {
    for (const Shares& shares : {Shares{rising, falling, equal}, Shares{equal, rising, falling},
                                 Shares{falling, equal, rising}}) {
      const Strategy named = named_strategy(name, graph, strategy_mesh(ranks.size, 0));
      expect_equal(graph, with_shares(graph, named, 0, shares), expected, ranks,
                   std::string("several shares of ") + name);
    }
  }
}

}  // namespace

void expect_equal_under_found_shares(const Graph& graph, const TriedRanks& ranks) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  Mesh mesh = strategy_mesh(ranks.size, 0);
  ASSERT_EQ(mesh.size(), 1U);
  const CostModel costs(roofline_profile(
      mesh,
      {.flops = 1e9, .memory_bandwidth = 1e9, .links = {{.bandwidth = 1e12, .latency_s = 1e-9}}}));
  std::vector<double> slower;
  for (int64_t rank = 0; rank < ranks.size; ++rank) {
    slower.push_back(1.0 + static_cast<double>(rank % 3));
    mesh[0].paces.push_back(1.0 / slower.back());
  }
  int unequal = 0;
  for (const char* name : {"dp", "fsdp", "megatron", "ep-deepspeed"}) {
    Strategy strategy = with_new_shares(graph, named_strategy(name, graph, mesh), mesh, costs,
                                        RankCosts(costs).slower(slower), SearchOptions());
    unequal += strategy.mesh[0].shares.empty() ? 0 : 1;
    expect_equal(graph, strategy, expected, ranks, name);
  }
  EXPECT_GE(unequal, 2) << "few sequences may leave nothing to gain";
  expect_equal_under_several_shares(graph, expected, ranks);
}

void expect_equal_under_pipelines(const Graph& graph, const TriedRanks& ranks) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  const Mesh mesh = {{.name = "pipe", .size = ranks.size}};
  const char* const of_two_chunks = ranks.size < 4 ? "dualpipe-v" : "zb-h2";  // two layers only
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1", of_two_chunks}) {
    Strategy strategy = named_strategy("pipeline", graph, mesh);
    strategy.accumulate = 3;
    strategy = with_stages(graph, std::move(strategy), {.axis = 0, .name = schedule});
    expect_equal(graph, strategy, expected, ranks, schedule);
  }
}

void expect_equal_in_groups(const Graph& graph, const TriedRanks& ranks) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  for (const char* name : {"dp", "zero1", "fsdp", "fsdp-kept", "megatron-sp"}) {
    for (const auto& [microbatches, groups] : {std::pair(1, 5), std::pair(2, 2)}) {
      Strategy strategy = named_strategy(name, graph, strategy_mesh(ranks.size, 1));
      strategy.microbatches = microbatches;
      strategy.accumulate = groups;
      expect_equal(graph, strategy, expected, ranks, name);
    }
  }
}

void expect_equal_under_combinations(const Graph& graph, const TriedRanks& ranks) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  int microbatches = 1;
  for (const int order : {1, 3}) {  // odd, so that each name gets 1 and 2
    const Mesh mesh = strategy_mesh(ranks.size, order);
    for (const char* name :
         {"hsdp", "node=dp,core=megatron", "node=fsdp,core=megatron", "node=megatron-sp,core=fsdp",
          "node=zero1,core=ep-deepspeed", "node=ep-fastmoe,core=megatron", "node=ps,core=zero1"}) {
      Strategy strategy = named_strategy(name, graph, mesh);
      strategy.microbatches = microbatches;
      microbatches = 3 - microbatches;
      expect_equal(graph, strategy, expected, ranks, name);
    }
  }
}

void expect_near_with_short_gradients(const Graph& graph, const TriedRanks& ranks, int strategies) {
  const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
  int64_t cases = ranks.size;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto expect_near = [&](const Strategy& strategy, const std::string& what) {
      expect_equal(graph, strategy, expected, ranks, what, {.gradients_as = dtype},
                   bounds_of(dtype));
    };
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(strategies); ++seed) {
      Draw draw(seed);
      const Mesh equal = strategy_mesh(ranks.size, seed / 2);
      const Mesh mesh = seed % 2 == 0 ? equal : with_random_shares(equal, draw);
      expect_near(with_random_messages(graph, random_strategy(graph, mesh, draw), draw),
                  "random strategy " + std::to_string(seed));
    }
    if (dtype == DType::bf16) {
      for (const NamedStrategy& named : named_strategies()) {
        if (cases++ % ranks.named_every != 0) {
          continue;
        }
        expect_near(named_strategy(named.name, graph, strategy_mesh(ranks.size, 1)),
                    std::string(named.name));
      }
    }
  }
}

void expect_equal_in_sixteen_bits(const Graph& wide, const TriedRanks& ranks) {
  const ShortRun exact = run_alone(wide, kStrategySteps, kStrategyVocab);
  int64_t cases = ranks.size;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Graph graph = with_precision(wide, dtype);
    const ShortRun expected = run_alone(graph, kStrategySteps, kStrategyVocab);
    EXPECT_EQ(differences(exact, expected, bounds_of(dtype)), "") << name_of(dtype) << " and f32";
    for (const NamedStrategy& named : named_strategies()) {
      for (const int microbatches : {1, 3}) {
        if (cases++ % ranks.named_every != 0) {
          continue;
        }
        const Mesh mesh = strategy_mesh(ranks.size, static_cast<uint64_t>(microbatches));
        Strategy strategy = named_strategy(named.name, graph, mesh);
        strategy.microbatches = microbatches;
        expect_equal(graph, strategy, expected, ranks, std::string(named.name), {},
                     bounds_of(dtype));
      }
    }
  }
}

}  // namespace hidup
