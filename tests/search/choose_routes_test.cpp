#include "search/estimate/choose_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/check.h"
#include "cost/roofline.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "program/print.h"
#include "program/verify.h"
#include "search/named/named_strategies.h"
#include "setting.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

const Mesh kTwoByThree = {{"node", 2}, {"gpu", 3}};

Graph small_model(int64_t experts = 0) {
  Deck deck;
  deck.model = {.family = "bert", .layers = 2, .hidden = 12, .ffn = 20, .heads = 6, .sequence = 14};
  if (experts > 0) {
    deck.model->moe = {.experts = experts, .every = 2, .router = "top2", .capacity_factor = 1.25};
  }
  deck.train->batch = 9;
  return build_model(deck, 31);
}

// `late_s`: additional time of every reduce-scatter. `latency_s`: of a message across nodes.
CostModel costs_with(double node, double late_s = 0.0, double latency_s = 0.0) {
  Profile profile = roofline_profile(
      kTwoByThree, {.flops = 1e12,
                    .memory_bandwidth = 1e12,
                    .links = {{.bandwidth = node, .latency_s = latency_s}, {.bandwidth = 1e9}}});
  for (CollectiveTimes& times : profile.collectives) {
    for (MessageTime& time : times.table) {
      time.alone_s += times.opcode == Opcode::reduce_scatter ? late_s : 0.0;
    }
  }
  return CostModel(profile);
}

Strategy with_ways_of(const Graph& graph, std::string_view name, const CostModel& costs) {
  return with_routes(graph, named_strategy(name, graph, kTwoByThree), {}, costs);
}

// Returns the route of the largest values that start as sums on both axes.
std::string route_of_sums(const Strategy& strategy) {
  const Layout from = {Placement::partial(), Placement::partial()};
  const auto found = std::ranges::find_if(strategy.routes.rbegin(), strategy.routes.rend(),
                                          [&](const auto& choice) { return choice.from == from; });
  return found == strategy.routes.rend() ? "" : to_string(found->steps, strategy.mesh);
}

TEST(WithWays, SlowLinksCarryWhatIsDifferentInside) {
  const Graph graph = small_model();
  EXPECT_EQ(route_of_sums(with_ways_of(graph, "dp", costs_with(1e7))), "all_reduce node+gpu");
  EXPECT_EQ(route_of_sums(with_ways_of(graph, "fsdp", costs_with(1e7))), "reduce_scatter node+gpu");
}

TEST(WithWays, GoByAxisWhereThatIsFaster) {
  const Graph graph = small_model();
  const Strategy strategy = with_ways_of(graph, "dp", costs_with(1e7, 1.0));
  EXPECT_TRUE(strategy.routes.empty()) << to_string(strategy.routes[0].steps, kTwoByThree);
}

TEST(WithWays, AreChosenBySize) {
  const Graph graph = small_model();
  const Strategy strategy = with_ways_of(graph, "dp", costs_with(1e7, 1e-5));
  EXPECT_EQ(route_of_sums(strategy), "all_reduce node+gpu");
  EXPECT_TRUE(std::ranges::all_of(strategy.routes, [](const RouteChoice& choice) {
    return choice.bytes > 100.0;
  })) << "the loss goes by axis";
}

TEST(WithWays, AreObeyedAndVerified) {
  const Graph graph = small_model();
  for (const std::string_view name : plain_names(graph, kTwoByThree)) {
    Strategy strategy = with_ways_of(graph, name, costs_with(1e7));
    strategy.microbatches = 2;
    const Program program = lower(graph, strategy, {});
    for (int64_t rank = 0; rank < ranks_of(kTwoByThree); ++rank) {
      EXPECT_NO_THROW(verify(program, plan_memory(program, rank))) << name;
    }
    const bool hierarchical = std::ranges::any_of(
        program.instructions, [](const Instruction& i) { return !i.inner_axes.empty(); });
    EXPECT_EQ(hierarchical, strategy.routes.end() !=
                                std::ranges::find_if(strategy.routes,
                                                     [](const auto& choice) {
                                                       return std::ranges::any_of(
                                                           choice.steps, [](const auto& step) {
                                                             return !step.inner.empty();
                                                           });
                                                     }))
        << name;
  }
}

// A bucket has one message per axis: parts that were scattered inside are summed across in one
// message.
TEST(WithWays, ScatteredPartsOfABucketAreSummedTogether) {
  const Graph graph = small_model();
  const LoweringOptions options{.bucket_bytes = 1 << 11};
  const Strategy strategy =
      with_routes(graph, named_strategy("hsdp", graph, kTwoByThree), options, costs_with(1e7));
  ASSERT_EQ(route_of_sums(strategy), "reduce_scatter gpu, all_reduce node");
  const Program program = lower(graph, strategy, options);
  std::map<int, std::vector<const Instruction*>> sent;  // by bucket
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::backward && instruction.bucket >= 0 &&
        (instruction.opcode == Opcode::reduce_scatter ||
         instruction.opcode == Opcode::all_reduce)) {
      sent[instruction.bucket].push_back(&instruction);
    }
  }
  size_t most = 0;
  for (const auto& [bucket, messages] : sent) {
    ASSERT_EQ(messages.size(), 2U) << "bucket " << bucket;
    EXPECT_EQ(messages[0]->opcode, Opcode::reduce_scatter);
    EXPECT_EQ(messages[1]->opcode, Opcode::all_reduce);
    EXPECT_EQ(messages[1]->inputs.size(), messages[0]->inputs.size());
    EXPECT_EQ(messages[1]->outputs, messages[1]->inputs);
    most = std::max(most, messages[1]->inputs.size());
  }
  EXPECT_GT(sent.size(), 2U);
  EXPECT_GT(most, 2U);
}

// Some ranks divide the sums over classes equally, by shares that the program's mesh has.
TEST(WithWays, OfClassesOnSomeRanks) {
  const Graph graph = small_model();
  Strategy strategy = named_strategy("dp", graph, kTwoByThree);
  strategy.mesh[1].shares = {{2, 1, 0}};
  const auto loss = static_cast<OpId>(graph.ops().size()) - 1;
  for (const Rule& rule : rules_of(graph, loss)) {
    if (rule.name == "vocabulary") {
      strategy.ops[static_cast<size_t>(loss)].rules[1] =
          with_share(rule, strategy.mesh[1], ShareNumber::of(1));
    }
  }
  strategy = with_routes(graph, std::move(strategy), {}, costs_with(1e7));
  const Program program = lower(graph, strategy, {});
  for (int64_t rank = 0; rank < ranks_of(kTwoByThree); ++rank) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
  }
}

// Returns the error of a strategy file for two by three ranks, or "none".
std::string refusal_of(const Graph& graph, const std::string& text) {
  try {
    parse_strategy(graph, kTwoByThree, text, "file");
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(WithWays, AreWrittenAndRead) {
  const Graph graph = small_model();
  const Strategy strategy = with_ways_of(graph, "fsdp-kept", costs_with(1e7));
  const std::string text = print_strategy(graph, strategy);
  EXPECT_THAT(text, HasSubstr("format_version: 2"));
  EXPECT_THAT(text, HasSubstr("steps: [reduce_scatter node+gpu]}"));
  EXPECT_EQ(parse_strategy(graph, kTwoByThree, text, "file").routes, strategy.routes);
  const auto refusal = [&](const std::string& old, const std::string& changed) {
    return refusal_of(graph, std::string(text).replace(text.find(old), old.size(), changed));
  };
  EXPECT_THAT(refusal("steps: [reduce_scatter node+gpu]", "steps: [reduce_scatter gpu+node]"),
              HasSubstr("there are [reduce_scatter node, reduce_scatter gpu] and "
                        "[reduce_scatter node+gpu]"));
  EXPECT_THAT(refusal("format_version: 2", "format_version: 1"),
              HasSubstr("routes: files of format_version 1 have none"));
}

TEST(WithWays, AlgorithmsAreWrittenAndRead) {
  const Graph graph = small_model();
  Profile profile = roofline_profile(
      kTwoByThree,
      {.flops = 1e12, .memory_bandwidth = 1e12, .links = {{.bandwidth = 1e7}, {.bandwidth = 1e9}}});
  CollectiveTimes faster = *times_of(profile, Opcode::reduce_scatter, 1);
  faster.algorithm = CollectiveAlgorithm::windows;
  for (MessageTime& time : faster.table) {
    time.alone_s /= 2.0;
    time.beside_s /= 2.0;
  }
  profile.collectives.push_back(faster);
  const Strategy strategy = with_ways_of(graph, "fsdp-kept", CostModel(profile));
  const std::string text = print_strategy(graph, strategy);
  EXPECT_THAT(text, HasSubstr("algorithms:\n  - {collective: reduce_scatter, axis: gpu, bytes: 0, "
                              "algorithm: windows}\n"));
  EXPECT_EQ(parse_strategy(graph, kTwoByThree, text, "file").algorithms, strategy.algorithms);
  EXPECT_THAT(print_program(lower(graph, strategy, {})), HasSubstr("by=windows automatic"));
  const auto refusal = [&](const std::string& old, const std::string& changed) {
    return refusal_of(graph, std::string(text).replace(text.rfind(old), old.size(), changed));
  };
  EXPECT_THAT(refusal("reduce_scatter", "reduce_scater"),
              HasSubstr("collective: expected all_gather, all_reduce, reduce_scatter, all_to_all, "
                        "found reduce_scater"));
  EXPECT_THAT(refusal("axis: gpu", "axis: cpu"), HasSubstr("axis: the mesh has no cpu"));
  EXPECT_THAT(refusal("algorithm: windows", "algorithm: tree"),
              HasSubstr("reduce_scatter can be done by automatic, ring, halving, windows, found "
                        "tree"));
  EXPECT_THAT(refusal("bytes: 0", "bytes: few"), HasSubstr("bytes: expected a number"));
  EXPECT_THAT(refusal_of(graph, std::string(text).replace(text.find("format_version: 2"), 17,
                                                          "format_version: 1")),
              HasSubstr("algorithms: files of format_version 1 have none"));
}

void refuse_wrong_axes(const Program& program) {
  const auto refusal = [&](const Program& mutant) {
    try {
      verify(mutant, plan_memory(mutant, 0));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal(program), "none");
  using Change = std::function<void(Instruction&)>;
  const std::vector<Change> changes = {
      [](Instruction& i) { i.inner_axes.clear(); },
      [](Instruction& i) { i.inner_axes = {0}; },
      [](Instruction& i) {
        i.inner_axes = {1, 1};
      },
      [](Instruction& i) { i.inner_axes = {2}; },
      [](Instruction& i) { i.axis = 1; },
      [](Instruction& i) { i.group = {0}; },
      [](Instruction& i) {
        i.flat = i.opcode != Opcode::all_to_all;
        i.group = {1};
      },
  };
  size_t mutants = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    // A sum in place along fewer axes is another valid sum, which a program may have.
    const size_t first = program.instructions[i].opcode == Opcode::all_reduce ? 1 : 0;
    for (size_t c = first; c < changes.size() && !program.instructions[i].inner_axes.empty(); ++c) {
      Program mutant = program;
      changes[c](mutant.instructions[i]);
      EXPECT_NE(refusal(mutant), "none")
          << "change " << c << " of " << program.instructions[i].name;
      ++mutants;
    }
  }
  EXPECT_GT(mutants, 10U);
}

// Returns the routes of tokens to experts that are cut on both axes.
std::vector<std::string> routes_to_experts(const CostModel& costs) {
  std::vector<std::string> routes;
  for (const RouteChoice& choice : with_ways_of(small_model(6), "ep-deepspeed", costs).routes) {
    if (choice.from[0].is_shard() && choice.from[1].is_shard()) {
      routes.push_back(to_string(choice.steps, kTwoByThree));
    }
  }
  return routes;
}

TEST(WithWays, TokensGoToExpertsInOneExchangeOrInTwo) {
  EXPECT_THAT(routes_to_experts(costs_with(1e7)),
              Each(AnyOf("all_to_all node*gpu", "slice gpu, all_to_all node*gpu")));
  EXPECT_THAT(routes_to_experts(costs_with(1e7, 0.0, 1e-3)), Contains("all_to_all node+gpu"))
      << "fewer messages across";
}

// Programs with joint collectives get changes that the verifier must find.
TEST(WithWays, WrongAxesAreRefused) {
  const auto program_of = [](const char* name, int64_t experts, const CostModel& costs) {
    const Graph graph = small_model(experts);
    return lower(graph, with_ways_of(graph, name, costs), {});
  };
  for (const Program& program :
       {program_of("fsdp", 0, costs_with(1e7)), program_of("ep-deepspeed", 6, costs_with(1e7)),
        program_of("ep-deepspeed", 6, costs_with(1e7, 0.0, 1e-3))}) {
    refuse_wrong_axes(program);
  }
}
}  // namespace
}  // namespace hidup
