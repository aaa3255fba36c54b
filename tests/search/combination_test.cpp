// Strategies named per axis of the mesh, and hsdp.
#include "search/named/combination.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/check.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "program/print.h"
#include "program/verify.h"
#include "program/work.h"
#include "search/estimate/estimate.h"
#include "setting.h"
#include "sharding/read_strategy.h"
#include "yaml/yaml_tree.h"

namespace hidup {
namespace {

const Mesh kMesh = {{"node", 2}, {"gpu", 3}};

// Returns two blocks of sizes that do not divide, the second with 7 experts.
Graph uneven_model(bool experts) {
  Deck deck;
  deck.model = {.family = "bert",
                .layers = 2,
                .hidden = 12,
                .ffn = 20,
                .heads = 6,
                .sequence = 14,
                .dropout = 0.1};
  if (experts) {
    deck.model->moe = {.experts = 7, .every = 2, .router = "top2", .capacity_factor = 1.0};
  }
  deck.train->batch = 9;
  return build_model(deck, 31);
}

std::string pair_of(std::string_view node, std::string_view gpu) {
  return fmt::format("node={},gpu={}", node, gpu);
}

// Returns the strategy's text without its name.
std::string content_of(const Graph& graph, Strategy strategy) {
  strategy.name = "any";
  return print_strategy(graph, strategy);
}

// Visits every pair of names. A model has one pipeline.
void for_each_pair(const std::function<void(const NamedStrategy&, const NamedStrategy&)>& visit) {
  for (const NamedStrategy& node : named_strategies()) {
    for (const NamedStrategy& gpu : named_strategies()) {
      if (!node.of_stages || !gpu.of_stages) {
        visit(node, gpu);
      }
    }
  }
}

// Checks that the combination has on one axis the rules and storages of that axis's strategy.
void expect_axis(const Graph& graph, const Strategy& pair, size_t axis, const NamedStrategy& name) {
  const Strategy alone = named_strategy(name.name, graph, {kMesh[axis]});
  for (size_t op = 0; op < pair.ops.size(); ++op) {
    EXPECT_EQ(pair.ops[op].rules[axis], alone.ops[op].rules[0])
        << graph.op_name(static_cast<OpId>(op));
  }
  for (size_t p = 0; p < pair.parameters.size(); ++p) {
    const Placement& storage = pair.parameters[p].storage[axis];
    const Placement& state = pair.parameters[p].optimizer_state[axis];
    const std::string& what = graph.tensor(pair.parameters[p].tensor).name;
    const bool in_parts = name.storage == Storage::sharded;
    if (!in_parts) {
      EXPECT_EQ(storage, alone.parameters[p].storage[0]) << what;
    }
    // The dimension may differ, since the other axis may have taken the strategy's usual one.
    EXPECT_EQ(storage.kind, alone.parameters[p].storage[0].kind) << what;
    EXPECT_EQ(storage.share, alone.parameters[p].storage[0].share) << what;
    EXPECT_EQ(state.kind, alone.parameters[p].optimizer_state[0].kind) << what;
    EXPECT_EQ(state.share, alone.parameters[p].optimizer_state[0].share) << what;
    if (name.storage != Storage::state_sharded) {
      EXPECT_EQ(state, storage) << what;
    }
  }
}

TEST(Combination, IsOnEveryAxisWhatItsNameIs) {
  const Graph graph = uneven_model(true);
  for_each_pair([&](const NamedStrategy& node, const NamedStrategy& gpu) {
    const Strategy pair = named_strategy(pair_of(node.name, gpu.name), graph, kMesh);
    expect_axis(graph, pair, 0, node);
    expect_axis(graph, pair, 1, gpu);
    EXPECT_EQ(pair.defer_gradients, node.name == "ep-fastmoe" || gpu.name == "ep-fastmoe");
    EXPECT_EQ(pair.name, pair_of(node.name, gpu.name));
    EXPECT_FALSE(testing::Test::HasFailure()) << pair.name;
  });
}

TEST(Combination, OfOneNameIsTheNameAlone) {
  for (const bool experts : {false, true}) {
    const Graph graph = uneven_model(experts);
    for (const NamedStrategy& named : named_strategies()) {
      if (named.whole != nullptr || named.of_stages || (named.of_experts && !experts)) {
        continue;
      }
      // A combination has hsdp on one axis at a time.
      const std::string_view alone = named.on_outer_axes.empty() ? named.name : "fsdp";
      for (const Mesh& mesh : {kMesh, Mesh{{"node", 8}, {"gpu", 8}}}) {  // more than sequences
        EXPECT_EQ(content_of(graph, named_strategy(pair_of(named.name, named.name), graph, mesh)),
                  content_of(graph, named_strategy(alone, graph, mesh)))
            << named.name;
      }
      EXPECT_EQ(
          content_of(graph, named_strategy(fmt::format("gpu={}", named.name), graph, {{"gpu", 3}})),
          content_of(graph, named_strategy(alone, graph, {{"gpu", 3}})))
          << named.name;
    }
  }
}

// On its axis it is as if no other axis existed.
TEST(Combination, OfLeastCommunicationIsThatOfEachAxis) {
  const Graph graph = uneven_model(false);
  EXPECT_EQ(content_of(graph, named_strategy("gpu=min-comm", graph, {{"gpu", 3}})),
            content_of(graph, named_strategy("min-comm", graph, {{"gpu", 3}})));
}

TEST(Combination, AxesMayStandInAnyOrder) {
  const Graph graph = uneven_model(false);
  const Strategy strategy = named_strategy("gpu=megatron,node=fsdp", graph, kMesh);
  EXPECT_EQ(strategy.name, "node=fsdp,gpu=megatron");
  EXPECT_EQ(print_strategy(graph, strategy),
            print_strategy(graph, named_strategy("node=fsdp,gpu=megatron", graph, kMesh)));
}

TEST(Combination, IsReadFromAFileAsItWasWritten) {
  const Graph graph = uneven_model(true);
  for (const char* name : {"node=zero1,gpu=ep-fastmoe", "node=ps,gpu=megatron-sp", "hsdp"}) {
    const std::string text = print_strategy(graph, named_strategy(name, graph, kMesh));
    EXPECT_NE(text.find(fmt::format("\nname: {}\n", yaml_word(name))), std::string::npos)
        << text.substr(0, 300);
    const Strategy parsed = parse_strategy(graph, kMesh, text, "s.yaml");
    EXPECT_EQ(parsed.name, name);
    EXPECT_EQ(print_strategy(graph, parsed), text);
  }
}

// Where ranks of a node have columns or rows of a parameter, sharding across nodes cuts the other
// dimension: a part of one rank's part would not lie within its peers' parts elsewhere.
TEST(Combination, StoragePartsLieWithinThoseThatInnerAxesUse) {
  const Graph graph = uneven_model(false);
  const auto storage = [&](const char* name) {
    std::map<std::string, std::string> found;
    for (const ParameterStrategy& parameter : named_strategy(name, graph, kMesh).parameters) {
      found[graph.tensor(parameter.tensor).name] = to_string(parameter.storage);
    }
    return found;
  };
  auto across = storage("node=fsdp,gpu=megatron");
  EXPECT_EQ(across["layers.0.ffn.up.weight"], "S(0) S(1)");
  EXPECT_EQ(across["layers.0.ffn.down.weight"], "S(1) S(0)");
  EXPECT_EQ(across["embedding.weight"], "S(1) S(0)");
  EXPECT_EQ(across["layers.0.ffn.up.bias"], "S(0) S(0)") << "it has no other";
  EXPECT_EQ(across["layers.0.ffn.down.bias"], "S(0) R");
  auto within = storage("node=megatron,gpu=fsdp");
  EXPECT_EQ(within["layers.0.ffn.down.weight"], "S(0) S(0)");
}

TEST(Combination, ProgramsAreRight) {
  const Graph graph = uneven_model(true);
  for_each_pair([&](const NamedStrategy& node, const NamedStrategy& gpu) {
    const std::string name = pair_of(node.name, gpu.name);
    const Program program = lower(graph, named_strategy(name, graph, kMesh), simple_lowering(2048));
    for (const int64_t rank : distinct_ranks(program)) {
      EXPECT_NO_THROW(verify(program, plan_memory(program, rank))) << name;
    }
  });
}

// Returns the bytes of a phase's collectives along an axis, by opcode.
std::map<std::string, double> bytes_along(const Program& program, int axis, Phase phase) {
  std::map<std::string, double> bytes;
  for (const Instruction& instruction : program.instructions) {
    const bool small = std::ranges::all_of(instruction.inputs, [&](ValueId id) {
      return elements(program.value(id).shape) <= 2;  // the loss, a norm
    });
    if (!collective_of(instruction.opcode).empty() && instruction.axis == axis &&
        instruction.phase == phase && !small) {
      bytes[std::string(name_of(instruction.opcode))] += work_of(program, instruction, 0).bytes;
    }
  }
  return bytes;
}

// As in PyTorch, parameters are gathered inside a node, and nodes exchange gradients only.
TEST(Hsdp, NodesExchangeGradientsOnly) {
  const Graph graph = uneven_model(false);
  const Mesh mesh = {{"node", 2}, {"gpu", 2}};
  const Strategy strategy = named_strategy("hsdp", graph, mesh);
  double whole = 0.0;
  double rank = 0.0;  // the first rank's, per node
  for (const ParameterStrategy& parameter : strategy.parameters) {
    EXPECT_TRUE(parameter.storage[0].is_replicate());
    EXPECT_TRUE(parameter.storage[1].is_shard());
    EXPECT_EQ(parameter.optimizer_state, parameter.storage);
    const Shape& shape = graph.tensor(parameter.tensor).shape;
    whole += 4.0 * static_cast<double>(elements(shape));
    rank +=
        4.0 * static_cast<double>(elements(shape_of(region_of(shape, parameter.storage, mesh, 0))));
  }
  const Program program = lower(graph, strategy, simple_lowering(int64_t{1} << 40));
  using Bytes = std::map<std::string, double>;
  EXPECT_EQ(bytes_along(program, 1, Phase::forward), (Bytes{{"all_gather", whole}}));
  Bytes backward = bytes_along(program, 1, Phase::backward);
  EXPECT_LT(backward["all_gather"], whole);  // only of what it reads
  backward.erase("all_gather");
  EXPECT_EQ(backward, (Bytes{{"reduce_scatter", whole}}));
  EXPECT_EQ(bytes_along(program, 1, Phase::update), Bytes());
  EXPECT_EQ(bytes_along(program, 0, Phase::forward), Bytes());
  EXPECT_EQ(bytes_along(program, 0, Phase::update), Bytes());
  const Bytes across = bytes_along(program, 0, Phase::backward);
  ASSERT_EQ(across.size(), 1);
  // The sum is over whole gradients or over a rank's parts, depending on the reshard.
  EXPECT_TRUE(across.contains("all_reduce"));
  EXPECT_GE(across.at("all_reduce"), rank);
  EXPECT_LE(across.at("all_reduce"), whole);
}

TEST(Hsdp, IsFsdpInsideAndDpOutside) {
  const Graph graph = uneven_model(true);
  EXPECT_EQ(content_of(graph, named_strategy("hsdp", graph, kMesh)),
            content_of(graph, named_strategy("node=dp,gpu=fsdp", graph, kMesh)));
  EXPECT_EQ(content_of(graph, named_strategy("hsdp", graph, {{"gpu", 3}})),
            content_of(graph, named_strategy("fsdp", graph, {{"gpu", 3}})));
  const Mesh three = {{"pod", 2}, {"node", 2}, {"gpu", 2}};
  EXPECT_EQ(content_of(graph, named_strategy("hsdp", graph, three)),
            content_of(graph, named_strategy("pod=dp,node=dp,gpu=fsdp", graph, three)));
  // An axis of one rank does not count as the inside.
  const Mesh flat = {{"pod", 2}, {"node", 2}, {"gpu", 1}};
  const Strategy strategy = named_strategy("hsdp", graph, flat);
  EXPECT_TRUE(strategy.parameters[0].storage[0].is_replicate());
  EXPECT_TRUE(strategy.parameters[0].storage[1].is_shard());
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Combination, WhatIsWrongIsSaid) {
  const Graph dense = uneven_model(false);
  const std::string names =
      "there are dp, dp-ev, dp-cp, zero1, fsdp, fsdp-kept, hsdp, ep-deepspeed, ep-fastmoe, "
      "megatron, "
      "megatron-sp, ps, pipeline, "
      "min-comm";
  const std::map<std::string, std::string> of_text = {
      {"node=dp,gpu=megatorn", "there is no strategy megatorn (did you mean megatron?); " + names},
      {"node=dp,gpu=", "there is no strategy ; " + names},
      {"node=dp,megatron", "expected AXIS=NAME for every axis, such as gpu=dp, found megatron"},
      {"node=dp,", "expected AXIS=NAME for every axis, such as gpu=dp, found nothing"},
      {"=dp", "expected AXIS=NAME for every axis, such as gpu=dp, found =dp"},
      {"node=dp,gpu=dp,node=fsdp", "axis node is named twice"}};
  const std::map<std::string, std::string> of_mesh = {
      {"node=dp,gpus=dp", "the mesh has no axis gpus (did you mean gpu?); its axes are node, gpu"},
      {"node=dp", "axis gpu has no strategy; the mesh's axes are node, gpu"},
      {"node=dp,gpu=ep-fastmoe", "ep-fastmoe on axis gpu needs experts, and the model has none"}};
  for (const auto& [name, message] : of_text) {
    const std::string expected = fmt::format("--strategy {}: {}", name, message);
    EXPECT_EQ(error_of([&] { check_strategy_name(name); }), expected);
    EXPECT_EQ(error_of([&] { named_strategy(name, dense, kMesh); }), expected);
  }
  for (const auto& [name, message] : of_mesh) {
    EXPECT_EQ(error_of([&] { check_strategy_name(name); }), "");
    EXPECT_EQ(error_of([&] { named_strategy(name, dense, kMesh); }),
              fmt::format("--strategy {}: {}", name, message));
  }
}

// Different names may not cut one dimension; one name may leave ranks idle, as it does alone.
TEST(Combination, NothingToCutIsAnError) {
  const Graph graph = uneven_model(false);
  const Mesh wide = {{"node", 9}, {"gpu", 2}};  // 9 sequences
  EXPECT_EQ(error_of([&] { named_strategy("node=dp,gpu=fsdp", graph, wide); }),
            "--strategy node=dp,gpu=fsdp: axes node and gpu both cut the dimension batch of "
            "embedding, which has 9 elements: node leaves gpu nothing to cut");
  EXPECT_EQ(error_of([&] { named_strategy("node=dp,gpu=megatron", graph, wide); }), "");
  EXPECT_EQ(error_of([&] { named_strategy("node=dp,gpu=dp", graph, wide); }), "");
  EXPECT_EQ(error_of([&] { named_strategy("hsdp", graph, wide); }), "");
  EXPECT_EQ(error_of([&] {
              named_strategy("node=dp,gpu=fsdp", graph, {{"node", 9}, {"gpu", 1}});
            }),
            "");
}

std::vector<Strategy> baselines_of(const Graph& graph, const Mesh& mesh) {
  std::vector<Strategy> found;
  Baselines baselines(graph, mesh);
  for (size_t n = 0; n < baselines.size(); ++n) {
    found.push_back(baselines.strategy(n));
    EXPECT_EQ(baselines.is_plain(n), !is_combination(found[n].name));
  }
  return found;
}

TEST(Baselines, AreAllCombinationsThatDiffer) {
  for (const bool experts : {false, true}) {
    const Graph graph = uneven_model(experts);
    std::set<std::string> names;
    std::set<std::string> contents;
    std::set<std::string> combined;
    for (const Strategy& each : baselines_of(graph, kMesh)) {
      EXPECT_TRUE(names.insert(each.name).second) << each.name;
      const bool is_new = contents.insert(content_of(graph, each)).second;
      EXPECT_TRUE(is_new || !is_combination(each.name)) << each.name;
      EXPECT_EQ(print_strategy(graph, each),
                print_strategy(graph, named_strategy(each.name, graph, kMesh)));
      combined.insert(content_of(graph, each));
    }
    EXPECT_TRUE(names.contains("hsdp"));
    EXPECT_FALSE(names.contains("node=dp,gpu=fsdp")) << "it is hsdp";
    EXPECT_FALSE(names.contains("node=megatron,gpu=megatron"));
    EXPECT_TRUE(names.contains("node=dp,gpu=megatron"));
    EXPECT_EQ(names.contains("node=dp,gpu=ep-deepspeed"), experts);
    for_each_pair([&](const NamedStrategy& node, const NamedStrategy& gpu) {
      const bool may_be_compared = !node.of_stages && !gpu.of_stages;
      if (may_be_compared && (experts || !(node.of_experts || gpu.of_experts))) {
        const std::string name = pair_of(node.name, gpu.name);
        EXPECT_TRUE(contents.contains(content_of(graph, named_strategy(name, graph, kMesh))))
            << name;
      }
    });
  }
}

TEST(Baselines, AreTheNamesAloneOnOtherMeshes) {
  const Graph graph = uneven_model(true);
  const size_t all = named_strategies().size() - 3;  // without pipelines, dp-ev, dp-cp
  EXPECT_EQ(baselines_of(graph, {{"ranks", 3}}).size(), all - 1) << "hsdp is fsdp";
  EXPECT_EQ(baselines_of(graph, {{"pod", 2}, {"node", 2}, {"gpu", 2}}).size(), all);
  const Mesh flat = {{"pod", 1}, {"node", 2}, {"gpu", 3}};
  const std::vector<Strategy> found = baselines_of(graph, flat);
  EXPECT_EQ(found.size(), baselines_of(graph, kMesh).size());
  EXPECT_TRUE(std::ranges::any_of(
      found, [](const Strategy& each) { return each.name == "pod=dp,node=dp,gpu=megatron"; }));
}

// Returns two machines with fast links inside.
Setting two_machines(double bandwidth, int64_t experts) {
  Setting setting = quick_setting(experts);
  setting.mesh = {{"node", 2}, {"gpu", 2}};
  setting.machine.links = {{.bandwidth = bandwidth, .latency_s = 2e-5},
                           {.bandwidth = 2e10, .latency_s = 5e-6}};
  return setting;
}

// Strategies that the objective calls slow are not faster; the limit is that of the search.
TEST(Baselines, TheirObjectiveIsHardlyAboveTheSimulatedTime) {
  double closest = 0.0;
  for (const int64_t experts : {0, 4}) {
    for (const double bandwidth : {1e8, 1e10}) {
      const Setting setting = two_machines(bandwidth, experts);
      const Graph graph = setting.graph();
      const CostModel costs = setting.costs();
      const LoweringOptions& lowering = setting.options.lowering;
      for (const int microbatches : {1, 2}) {
        const BuiltProblem built =
            build_problem(graph, setting.mesh, costs,
                          {.microbatches = microbatches, .bucket_bytes = lowering.bucket_bytes});
        for (Strategy& each : baselines_of(graph, setting.mesh)) {
          each.microbatches = microbatches;
          const auto choices = choices_of(graph, built.problem, built, each);
          if (!choices || each.defer_gradients) {
            continue;
          }
          const double ratio = evaluate(built.problem, *choices).seconds /
                               simulate(lower(graph, each, lowering), costs).iteration_s;
          EXPECT_LE(ratio, 1.2) << each.name << ", " << microbatches << " microbatch(es)";
          closest = std::max(closest, ratio);
        }
      }
    }
  }
  EXPECT_GE(closest, 0.8) << "it tells few";
}

TEST(Search, OnTwoAxesNeverLosesToACombination) {
  for (const double bandwidth : {1e8, 1e10}) {
    Setting setting = two_machines(bandwidth, 4);
    const Graph graph = setting.graph();
    const CostModel costs = setting.costs();
    const SearchOutcome all = setting.search();
    std::set<std::string> names;
    for (const Candidate& candidate : all.candidates) {
      names.insert(candidate.strategy.name);
    }
    setting.options.baselines = false;
    const SearchOutcome few = setting.search();
    EXPECT_EQ(print_strategy(graph, few.step.strategy), print_strategy(graph, all.step.strategy));
    EXPECT_LT(few.candidates.size(), all.candidates.size());
    for (Strategy& each : baselines_of(graph, setting.mesh)) {
      EXPECT_TRUE(names.contains(each.name)) << each.name;
      for (const int microbatches : {1, 2, 4}) {
        each.microbatches = microbatches;
        EXPECT_LE(few.step.seconds() * (1 - 1e-9),
                  simulate(lower(graph, each, setting.options.lowering), costs).iteration_s)
            << each.name;
      }
    }
  }
}

}  // namespace
}  // namespace hidup
