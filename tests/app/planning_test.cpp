#include "app/planning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "app/costs.h"
#include "app/run_search.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "small_decks.h"

namespace hidup {
namespace {

SearchOutcome searched(const PlanningInput& input, const std::string& hints) {
  SearchOptions options = search_options(input.deck, input.graph, input.mesh, hints);
  options.baselines = false;
  options.level = SearchLevel::fast;
  options.time_limit_s = 0.0;  // so that results do not depend on the machine's speed
  return search_for(input.deck, input.graph, input.mesh,
                    costs_without_ranks(input.deck, input.mesh), options);
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(StrategyChoice, IsSearchOrANameOrAFile) {
  for (const char* choice : {"search", "dp", "megatron-sp", "mine.yaml", "folder/mine"}) {
    EXPECT_NO_THROW(check_strategy_choice(choice)) << choice;
  }
  EXPECT_THAT(error_of([] { check_strategy_choice("megatorn"); }),
              Pair(ExitCode::usage, HasSubstr("megatron")));
}

TEST(ChooseStrategy, ByNameOrFromAFile) {
  const SmallDecks decks;
  const auto [deck, mesh, data, graph] = decks.read();
  const Strategy named = choose_strategy("fsdp", deck, graph, mesh);
  EXPECT_EQ(named.name, "fsdp");
  const std::string file = decks.folder.write("mine.yaml", print_strategy(graph, named));
  EXPECT_EQ(strategy_hash(graph, choose_strategy(file, deck, graph, mesh)),
            strategy_hash(graph, named));
  const std::string missing = decks.folder / "none.yaml";
  EXPECT_THAT(error_of([&] { choose_strategy(missing, deck, graph, mesh); }),
              Pair(ExitCode::file, HasSubstr(missing)));
}

TEST(LoweringOptions, HaveTheTypeOfGradients) {
  const SmallDecks decks;
  const auto type_of = [&](const std::string& gradients, const std::string& precision) {
    return lowering_options(
               decks.read({"train.gradients=" + gradients, "model.precision=" + precision}).deck)
        .gradients_as;
  };
  EXPECT_EQ(lowering_options(decks.read().deck).gradients_as, DType::f32);
  EXPECT_EQ(type_of("f32", "bf16"), DType::f32);
  EXPECT_EQ(type_of("bf16", "fp32"), DType::bf16);
  EXPECT_EQ(type_of("bf16", "fp16"), DType::bf16);
  EXPECT_EQ(type_of("model", "fp32"), DType::f32);
  EXPECT_EQ(type_of("model", "bf16"), DType::bf16);
  EXPECT_EQ(type_of("model", "fp16"), DType::f16);
}

// Where gradients are most of what is sent.
TEST(SearchOptions, PlansAreForTheTypeOfGradients) {
  const SmallDecks decks;
  const auto found = [&](const std::string& gradients) {
    return searched(decks.read({"train.gradients=" + gradients, "model.hidden=256",
                                "model.ffn=1024", "train.batch=256"}),
                    "");
  };
  const SearchOutcome narrow = found("bf16");
  const SearchOutcome wide = found("f32");
  EXPECT_LT(narrow.step.seconds(), wide.step.seconds());
  EXPECT_LT(narrow.objective_s, wide.objective_s);
}

constexpr const char* kTwoAxes =
    "cluster.mesh=[{name: node, size: 2, bandwidth: 1GB/s, latency: 5us}, "
    "{name: gpu, size: 2, bandwidth: 10GB/s, latency: 5us}]";

TEST(ChooseStrategy, ByANamePerAxis) {
  const SmallDecks decks;
  const auto [deck, mesh, data, graph] = decks.read({kTwoAxes});
  const std::string text = "gpu=megatron,node=zero1";
  EXPECT_NO_THROW(check_strategy_choice(text));
  const Strategy chosen = choose_strategy(text, deck, graph, mesh);
  EXPECT_EQ(chosen.name, "node=zero1,gpu=megatron");
  const std::string file = decks.folder.write("mine.yaml", print_strategy(graph, chosen));
  const Strategy read = choose_strategy(file, deck, graph, mesh);
  EXPECT_EQ(read.name, chosen.name);
  EXPECT_EQ(print_strategy(graph, read), print_strategy(graph, chosen));
  EXPECT_THAT(files_read("m.yaml", "", deck, text).at(4).path, "") << "it is no file";
  EXPECT_THAT(error_of([] { check_strategy_choice("node=zero,gpu=dp"); }),
              Pair(ExitCode::usage, HasSubstr("there is no strategy zero (did you mean zero1?)")));
  EXPECT_THAT(error_of([&] { choose_strategy("node=dp,gpus=dp", deck, graph, mesh); }),
              Pair(ExitCode::usage, HasSubstr("the mesh has no axis gpus (did you mean gpu?)")));
}

// The order of the axes in a deck numbers the ranks; predictions do not depend on it.
TEST(ChooseStrategy, ThePredictionIsThatOfTheAxesInAnyOrder) {
  const SmallDecks decks;
  const std::vector<std::string> orders = {
      "cluster.mesh=[{name: node, size: 2, bandwidth: 400MB/s, shared: 4, latency: 9us}, "
      "{name: gpu, size: 4, bandwidth: 10GB/s, latency: 2us}]",
      "cluster.mesh=[{name: gpu, size: 4, bandwidth: 10GB/s, latency: 2us}, "
      "{name: node, size: 2, bandwidth: 400MB/s, shared: 4, latency: 9us}]"};
  std::vector<std::vector<double>> predicted;
  for (const std::string& order : orders) {
    const PlanningInput input = decks.read({order});
    const Profile profile = costs_without_ranks(input.deck, input.mesh);
    std::vector<double>& seconds = predicted.emplace_back();
    for (const char* name : {"dp", "fsdp", "megatron", "hsdp", "gpu=zero1,node=fsdp"}) {
      const Strategy strategy = choose_strategy(name, input.deck, input.graph, input.mesh, profile);
      seconds.push_back(forecast(input.graph, strategy, lowering_options(input.deck),
                                 rank_costs(input.deck, input.mesh, profile))
                            .prediction.iteration_s);
    }
    seconds.push_back(searched(input, "").step.seconds());
  }
  EXPECT_EQ(predicted[0], predicted[1]);
  EXPECT_LT(predicted[0].back(), predicted[0].front());
}

TEST(ChooseStrategy, TheSearchOnThreeAxesFindsTheSameInAnyOrder) {
  const SmallDecks decks;
  const std::string pod = "{name: pod, size: 2, bandwidth: 200MB/s, latency: 20us}";
  const std::string node = "{name: node, size: 2, bandwidth: 400MB/s, latency: 9us}";
  const std::string gpu = "{name: gpu, size: 2, bandwidth: 10GB/s, latency: 2us}";
  std::vector<double> seconds;
  for (const auto& axes : {std::array{pod, node, gpu}, {gpu, pod, node}, {node, gpu, pod}}) {
    const PlanningInput input =
        decks.read({"cluster.mesh=[" + axes[0] + ", " + axes[1] + ", " + axes[2] + "]"});
    seconds.push_back(searched(input, "").step.seconds());
  }
  EXPECT_EQ(seconds[1], seconds[0]);
  EXPECT_EQ(seconds[2], seconds[0]);
}

TEST(ChooseStrategy, TheDecksMicrobatchesWin) {
  const SmallDecks decks;
  const PlanningInput input = decks.read();
  Strategy strategy = choose_strategy("dp", input.deck, input.graph, input.mesh);
  strategy.microbatches = 4;
  const std::string file = decks.folder.write("mine.yaml", print_strategy(input.graph, strategy));
  const auto microbatches = [&](const std::vector<std::string>& overrides) {
    return choose_strategy(file, decks.read(overrides).deck, input.graph, input.mesh).microbatches;
  };
  EXPECT_EQ(microbatches({}), 4);
  EXPECT_EQ(microbatches({"train.microbatches=2"}), 2);
  EXPECT_EQ(microbatches({"train.microbatches=auto"}), 4);
}

TEST(ChooseStrategy, TheDeckSaysWhatNamedStrategiesComputeAgain) {
  const SmallDecks decks;
  const PlanningInput input = decks.read();
  const std::string file = decks.folder.write(
      "mine.yaml",
      print_strategy(input.graph, choose_strategy("dp", input.deck, input.graph, input.mesh)));
  const auto again = [&](const std::string& choice, const std::vector<std::string>& overrides) {
    return std::ranges::count_if(
        choose_strategy(choice, decks.read(overrides).deck, input.graph, input.mesh).ops,
        &OpStrategy::recompute);
  };
  EXPECT_EQ(again("dp", {}), 0);
  EXPECT_GT(again("dp", {"train.recompute=cheap"}), 0);
  EXPECT_GT(again("dp", {"train.recompute=block"}), again("dp", {"train.recompute=cheap"}));
  EXPECT_EQ(again(file, {"train.recompute=block"}), 0);
}

TEST(SearchOptionsOf, TheDecksChoicesOfMemoryAreHints) {
  const SmallDecks decks;
  const auto options = [&](const std::vector<std::string>& overrides, const std::string& hints) {
    const PlanningInput input = decks.read(overrides);
    return search_options(input.deck, input.graph, input.mesh, hints);
  };
  EXPECT_TRUE(options({}, "").hints.empty());
  const Hints both = options({"train.accumulate=2", "train.recompute=block"}, "").hints;
  EXPECT_EQ(both.accumulate, 2);
  EXPECT_EQ(ranks_of(both.mesh), ranks_of(decks.read().mesh));
  const PlanningInput input = decks.read({"train.recompute=block"});
  const Strategy named = choose_strategy("dp", input.deck, input.graph, input.mesh);
  ASSERT_EQ(both.ops.size(), named.ops.size());
  for (size_t op = 0; op < both.ops.size(); ++op) {  // the search chooses the others
    EXPECT_EQ(both.ops[op].recompute.has_value(), named.ops[op].recompute);
    EXPECT_TRUE(both.ops[op].recompute.value_or(true));
  }
  const std::string file = decks.folder.write(
      "hints.yaml", "{accumulate: 4, operations: [{op: '*.norm*', recompute: false}]}");
  const Hints mixed = options({"train.accumulate=2", "train.recompute=block"}, file).hints;
  EXPECT_EQ(mixed.accumulate, 4);
  const auto says = [&](bool again) {
    return std::ranges::count_if(mixed.ops, [&](const OperationHint& hint) {
      return hint.recompute && *hint.recompute == again;
    });
  };
  EXPECT_GT(says(true), 0);
  EXPECT_GT(says(false), 0);
  for (OpId op = 0; op < static_cast<OpId>(mixed.ops.size()); ++op) {  // the file has precedence
    if (input.graph.op_name(op).find(".norm") != std::string::npos) {
      EXPECT_EQ(mixed.of_operation(op)->recompute, false) << input.graph.op_name(op);
    }
  }
}

TEST(ChooseStrategy, TakesGroupsOfTheDeck) {
  const SmallDecks decks;
  const auto groups = [&](const std::vector<std::string>& overrides) {
    const PlanningInput input = decks.read(overrides);
    return choose_strategy("dp", input.deck, input.graph, input.mesh).accumulate;
  };
  EXPECT_EQ(groups({}), 1);
  EXPECT_EQ(groups({"train.accumulate=4", "train.microbatches=2"}), 4);
  EXPECT_THAT(error_of([&] {
                groups({"train.accumulate=8", "train.microbatches=2"});
              }),
              Pair(ExitCode::usage, HasSubstr("train.accumulate 8 groups of 2 microbatch(es) are "
                                              "more than train.batch 8")));
  EXPECT_THAT(error_of([&] {
                groups({"train.accumulate=2", "model.moe.experts=2", "model.moe.router=top1",
                        "model.moe.balance_loss=0.1"});
              }),
              Pair(ExitCode::usage, HasSubstr("are of the whole batch, not of a group of it")));
}

TEST(ChooseStrategy, RefusesMicrobatchesOfABatchThatCannotBeSplit) {
  const SmallDecks decks;
  const std::string graph = decks.folder.write(
      "graph.txt",
      "graph own\ninput tokens : i32[8, 8]\ninput targets : i32[8, 8]\n"
      "parameter table : f32[50, 50] = ones\nparameter p : f32[8, 8, 50] = zeros\n"
      "x = embedding(tokens, table)\ny = add(x, p)\nloss = cross_entropy(y, targets)\n");
  const std::string model = decks.folder.write(
      "own.yaml",
      "model: {graph: graph.txt, sequence: 8, vocab: 50}\ndata: {kind: synthetic}\n"
      "train: {batch: 8, steps: 1}\n");
  const auto choose = [&](const std::string& microbatches) {
    const PlanningInput input =
        read_planning_input(model, "", {"train.microbatches=" + microbatches}, std::nullopt);
    return choose_strategy("dp", input.deck, input.graph, input.mesh).microbatches;
  };
  EXPECT_EQ(choose("1"), 1);
  EXPECT_THAT(error_of([&] { choose("2"); }),
              Pair(ExitCode::usage, HasSubstr("--set train.microbatches=2: train.microbatches: the "
                                              "batch of this graph cannot be split: y has the")));
}

std::vector<std::string> names_of(const std::vector<NamedFile>& files) {
  std::vector<std::string> names;
  for (const NamedFile& file : files) {
    if (!file.path.empty()) {
      names.push_back(file.name + " " + file.path);
    }
  }
  return names;
}

TEST(FilesRead, AreTheDecksAndWhatTheyName) {
  Deck deck;
  deck.cluster->profile = "auto";
  EXPECT_THAT(names_of(files_read("m.yaml", "", deck)), ElementsAre("the model deck m.yaml"));
  EXPECT_THAT(names_of(files_read("m.yaml", "c.yaml", deck, "megatron")),
              ElementsAre("the model deck m.yaml", "the cluster deck c.yaml"))
      << "a name is no file";
  const TemporaryFolder folder;
  const std::string a = folder.write("a.txt", "a");
  const std::string b = folder.write("b.txt", "b");
  deck.cluster->profile = "/p.yaml";
  deck.model->graph = "/g.txt";
  deck.data->path = {folder / "*.txt"};
  EXPECT_THAT(names_of(files_read("m.yaml", "c.yaml", deck, "s.yaml", "h.yaml")),
              ElementsAre("the model deck m.yaml", "the cluster deck c.yaml", "the graph /g.txt",
                          "the profile /p.yaml", "the strategy s.yaml", "the hints h.yaml",
                          "the data " + a, "the data " + b));
}

TEST(PlanningInput, HasTheRanksThatWereAskedForOrThoseOfTheMesh) {
  const SmallDecks decks;
  const auto ranks = [&](const std::string& mesh, std::optional<int64_t> wanted) {
    return ranks_of(decks.read({"cluster.mesh=" + mesh}, wanted).mesh);
  };
  EXPECT_EQ(ranks("[{name: node, size: 2}, {name: gpu, size: 4}]", std::nullopt), 8);
  EXPECT_EQ(ranks("[{name: node, size: auto}, {name: gpu, size: 4}]", std::nullopt), 4);
  EXPECT_EQ(ranks("[{name: node, size: auto}, {name: gpu, size: 4}]", 12), 12);
  EXPECT_EQ(error_of([&] { ranks("[{name: gpu, size: 4}]", 3); }).first, ExitCode::usage);
}

TEST(PlanningInput, TakesTheVocabularyFromTheData) {
  const SmallDecks decks;
  decks.folder.write("corpus.txt", "a b c\nd e f g h i j k\n");
  const auto read = [&](const std::string& file, const std::string& tokenizer) {
    return decks.read({"data.kind=text", "data.path=" + decks.folder / file, "model.vocab=auto",
                       "data.tokenizer=" + tokenizer});
  };
  const PlanningInput input = read("corpus.txt", "words");
  EXPECT_EQ(input.data.vocab, 12) << "one for every word, and the end of a line";
  EXPECT_EQ(input.graph.tensor(input.graph.find("embedding.weight")).shape[0], 12);
  EXPECT_THAT(input.data.description, HasSubstr("12 distinct"));
  EXPECT_EQ(read("none.txt", "bytes").data.vocab, 256) << "one for every byte";
  EXPECT_THAT(error_of([&] { read("none.txt", "words"); }),
              Pair(ExitCode::file, HasSubstr("with a number in model.vocab a plan needs no data")));
}

TEST(PlanningInput, NeedsNoDataWhereTheDeckSaysAllSizes) {
  const SmallDecks decks;
  for (const char* kind : {"text", "tokens"}) {
    const PlanningInput input =
        decks.read({"data.kind=" + std::string(kind), "data.path=" + decks.folder / "*.none",
                    "data.validation=0.5"});
    EXPECT_EQ(input.deck.model->vocab, 50);
    EXPECT_EQ(input.data.description, "not looked at: the deck says all sizes");
    EXPECT_FALSE(input.data.is_read);
    EXPECT_THAT(names_of(files_read(decks.model, decks.cluster, input.deck)), SizeIs(2));
  }
}

TEST(SearchFor, KeepsTheDecksMicrobatchesAndTheHints) {
  const SmallDecks decks;
  const PlanningInput input = decks.read({"train.microbatches=2", "cluster.device.flops=1GFLOPS"});
  const std::string hints = decks.folder.write(
      "hints.yaml", "format_version: 1\noperations:\n  - {op: \"*\", rule: [replicate]}\n");
  const auto search = [&](const std::string& file) { return searched(input, file).step.strategy; };
  const Strategy free = search("");
  EXPECT_EQ(free.microbatches, 2);
  const auto replicates = [](const OpStrategy& op) { return op.rules[0].name == "replicate"; };
  EXPECT_FALSE(std::ranges::all_of(free.ops, replicates));
  EXPECT_TRUE(std::ranges::all_of(search(hints).ops, replicates));
}

TEST(SearchFor, KeepsTheMemoryOfTheDevice) {
  const SmallDecks decks;
  const PlanningInput input =
      decks.read({"model.layers=1", "cluster.device.memory=1MiB", "train.batch=8192"});
  const SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  EXPECT_EQ(options.memory_limit, 1 << 20);
  EXPECT_TRUE(std::holds_alternative<Infeasible>(search_strategy(
      input.graph, input.mesh, CostModel(costs_without_ranks(input.deck, input.mesh)), options)));
}

TEST(SearchFor, TakesPlansFromTheMethodOfTheDeck) {
  const SmallDecks decks;
  for (const auto& [method, is_astar] :
       {std::pair("auto", false), {"dp", false}, {"astar", true}}) {
    const PlanningInput input = decks.read({fmt::format("search.method={}", method)});
    EXPECT_EQ(search_options(input.deck, input.graph, input.mesh, "").effort.best_first, is_astar);
  }
}

TEST(Annotate, NotesThePredictionAndTheFirstOperationOfEveryStage) {
  const SmallDecks decks;
  const PlanningInput input = decks.read({"train.microbatches=2"});
  const CostModel costs(costs_without_ranks(input.deck, input.mesh));
  Strategy strategy = choose_strategy("megatron", input.deck, input.graph, input.mesh);
  strategy.stages = {7};  // an earlier note, which is replaced
  const Forecast step = forecast(input.graph, strategy, lowering_options(input.deck), costs);
  strategy = step.strategy;
  EXPECT_EQ(strategy.predicted->iteration_s, step.prediction.iteration_s);
  EXPECT_EQ(strategy.predicted->compute_s, step.prediction.busy.compute_s);
  EXPECT_EQ(strategy.predicted->comm_s, step.prediction.busy.comm_s);
  EXPECT_EQ(strategy.predicted->exposed_comm_s, step.prediction.busy.exposed_comm_s);
  EXPECT_EQ(strategy.predicted->peak_bytes, step.plan.bytes);
  // Stages begin after the messages of the embedding and of the sums of heads and of columns.
  std::vector<std::string> stages;
  for (const OpId op : strategy.stages) {
    stages.push_back(input.graph.op_name(op));
  }
  EXPECT_THAT(stages, ElementsAre("embedding", "positions", "layers.0.attention.out.biased",
                                  "layers.0.ffn.down.biased", "layers.1.attention.out.biased",
                                  "layers.1.ffn.down.biased", "loss"));
}

}  // namespace
}  // namespace hidup
