// Random pipelines against one rank: models, meshes in any order of their axes, stages of one or
// several ranks, maps of operations to stages, chunks, named and random schedules, recomputation,
// groups, and trainings that resume on another number of stages.
//
// HIDUP_PIPELINE_CASES in the environment, "FIRST LAST", selects the cases.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/check.h"
#include "graph/batch.h"
#include "graph/text.h"
#include "models/transformer.h"
#include "random_schedule.h"
#include "saved_run.h"
#include "schedule/named.h"
#include "search/named/combination.h"
#include "search/named/named_strategies.h"
#include "search/named/pipeline.h"
#include "sharding/memory_choices.h"
#include "sharding/stages.h"
#include "small_deck.h"
#include "strategy_cases.h"
#include "temporary_folder.h"
#include "tried_training.h"

namespace hidup {
namespace {

Graph random_pipeline_model(Draw& draw) {
  Deck deck;
  deck.model->family = draw.of({"bert", "gpt", "llama"});
  deck.model->layers = static_cast<int64_t>(1 + draw.below(3));
  deck.model->heads = static_cast<int64_t>(1 + draw.below(2));
  deck.model->kv_heads = deck.model->heads;
  deck.model->hidden = 4 * deck.model->heads;
  deck.model->ffn = static_cast<int64_t>(3 + draw.below(6));
  deck.model->sequence = static_cast<int64_t>(2 + draw.below(5));
  deck.model->dropout = draw.of({0.0, 0.1});
  deck.model->tied_head = draw.of({"on", "off"});
  deck.train->batch = static_cast<int64_t>(1 + draw.below(9));
  if (deck.model->family == std::string("bert") && draw.below(2) == 0) {
    deck.model->moe.experts = 3;
    deck.model->moe.every = 1;
    deck.model->moe.router = draw.of({"top1", "top2", "hash"});
    if (draw.below(2) == 0) {
      deck.model->moe.capacity_factor = 1.25;
    }
  }
  return build_model(deck, kStrategyVocab);
}

// Returns a mesh with the axis `pipe`, and perhaps another one outside or inside of it.
Mesh random_pipeline_mesh(Draw& draw) {
  Mesh mesh = {{.name = "pipe", .size = static_cast<int64_t>(1 + draw.below(4))}};
  if (mesh[0].size < 4 && draw.below(3) > 0) {
    mesh.insert(draw.below(2) == 0 ? mesh.begin() : mesh.end(), {.name = "inner", .size = 2});
  }
  return mesh;
}

size_t pipe_of(const Mesh& mesh) {
  return mesh[0].name == "pipe" ? 0 : 1;
}

int random_groups(const Graph& graph, int woven, Draw& draw) {
  const int64_t most = accumulate_obstacle(graph).empty() ? batch_of(graph) / woven : 1;
  return static_cast<int>(std::clamp<int64_t>(draw.of({1, 2, 3, 5, 8}), 1, most));
}

// Returns a named schedule for a strategy that is named on the other axis.
Strategy named_pipeline(const Graph& graph, const Mesh& mesh, Draw& draw) {
  const std::string inner = draw.of({"dp", "fsdp", "zero1", "megatron"});
  Strategy strategy = named_strategy(
      mesh.size() == 1
          ? "pipeline"
          : fmt::format("{}={},{}={}", mesh[0].name, mesh[0].name == "pipe" ? "pipeline" : inner,
                        mesh[1].name, mesh[1].name == "pipe" ? "pipeline" : inner),
      graph, mesh);
  strategy.microbatches = static_cast<int>(1 + draw.below(batch_of(graph) > 1 ? 2 : 1));
  strategy.accumulate = random_groups(graph, strategy.microbatches, draw);
  const auto rows = pipeline::named_schedules();
  const StageSchedule schedule{.axis = pipe_of(mesh),
                               .name = std::string(rows[draw.below(rows.size())].name)};
  return with_stages(graph, std::move(strategy), schedule);
}

// Divides the ranks of an axis among devices. Returns the devices' shares, of one or more ranks.
std::vector<ShareNumber> random_devices(Axis& axis, Draw& draw) {
  const auto size = static_cast<size_t>(axis.size);
  std::vector<std::vector<int64_t>> ranks(size == 1 ? 1 : 2 + draw.below(size - 1));
  for (int64_t at = 0; at < axis.size; ++at) {
    const bool is_needed = at < static_cast<int64_t>(ranks.size());
    ranks[is_needed ? static_cast<size_t>(at) : draw.below(ranks.size())].push_back(at);
  }
  std::vector<ShareNumber> shares;
  for (const std::vector<int64_t>& of_device : ranks) {
    if (of_device.size() == 1) {
      shares.push_back(ShareNumber::only(of_device[0]));
      continue;
    }
    Share share(static_cast<size_t>(axis.size), 0);
    for (const int64_t at : of_device) {
      share[static_cast<size_t>(at)] = static_cast<int64_t>(1 + draw.below(3));
    }
    axis.shares.push_back(share);
    shares.push_back(ShareNumber::of(static_cast<int64_t>(axis.shares.size())));
  }
  return shares;
}

// Returns random stages in a random order.
Strategy random_pipeline(const Graph& graph, Mesh mesh, Draw& draw) {
  const size_t pipe = pipe_of(mesh);
  const std::vector<ShareNumber> devices = random_devices(mesh[pipe], draw);
  if (mesh.size() > 1 && draw.below(2) == 0) {
    mesh[1 - pipe].shares.push_back({static_cast<int64_t>(draw.below(3)), 1});
  }
  Strategy strategy = random_strategy(graph, mesh, draw);
  strategy.microbatches = static_cast<int>(1 + draw.below(batch_of(graph) > 1 ? 2 : 1));
  strategy.accumulate = random_groups(graph, strategy.microbatches, draw);
  const size_t stay = draw.of({2, 10, 30});  // one in so many operations changes the device
  size_t device = draw.below(devices.size());
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    device = draw.below(stay) == 0 ? draw.below(devices.size()) : device;
    const Axis& axis = mesh[pipe];
    const auto id = static_cast<OpId>(op);
    Rule rule = replicate_rule(graph, id);
    for (const Rule& other : rules_of(graph, id)) {
      rule = other.name == "batch" && !devices[device].is_one_rank() && draw.below(2) == 0 ? other
                                                                                           : rule;
    }
    strategy.ops[op].rules[pipe] = axis.size == 1 ? rule : with_share(rule, axis, devices[device]);
  }
  strategy.schedule = StageSchedule{.axis = pipe, .name = kCustomSchedule};
  for (size_t op = 1; op < strategy.ops.size(); ++op) {
    if (draw.below(2 * stay) == 0) {
      strategy.schedule->cuts.push_back(static_cast<OpId>(op));
    }
  }
  strategy.schedule->custom = random_schedule(stages_of(graph, strategy).pipeline, draw);
  return with_random_messages(graph, std::move(strategy), draw);
}

Strategy random_pipeline_training(const Graph& graph, Draw& draw) {
  const Mesh mesh = random_pipeline_mesh(draw);
  if (draw.below(2) == 0) {
    return random_pipeline(graph, mesh, draw);
  }
  for (;;) {
    try {
      return with_recompute(graph, named_pipeline(graph, mesh, draw),
                            draw.of({Recompute::none, Recompute::cheap, Recompute::block}));
    } catch (const Error& error) {  // the schedule needs another number of stages or microbatches
      check(error.code() == ExitCode::usage, "{}", error.what());
    }
  }
}

void try_pipeline(int number) {
  Draw draw(1000000 + static_cast<uint64_t>(number));
  const Graph graph = random_pipeline_model(draw);
  try_training("case " + std::to_string(number), graph,
               [&] { return random_pipeline_training(graph, draw); });
}

// Two branches that join; each may be a stage of its own.
Graph branches() {
  return parse_graph(R"(graph branches
input tokens : i32[6, 4]
input targets : i32[6, 4]
parameter table : f32[31, 8] = normal(0.3)
parameter up : f32[8, 12] = normal(0.3)
parameter down : f32[12, 8] = normal(0.3)
parameter other : f32[8, 8] = normal(0.3)
parameter head : f32[8, 31] = normal(0.3)
start = embedding(tokens, table)
left.up = matmul(start, up)
left.gelu = gelu(left.up)
left.down = matmul(left.gelu, down)
right.product = matmul(start, other)
right.gelu = gelu(right.product)
sum = add(left.down, right.gelu)
logits = matmul(sum, head)
loss = cross_entropy(logits, targets)
)",
                     "branches");
}

// Puts the branches on stages 1 and 2, and what joins them on the last one.
Strategy with_branches(const Graph& graph, Strategy strategy, const std::string& schedule) {
  const size_t pipe = pipe_of(strategy.mesh);
  const int64_t last = strategy.mesh[pipe].size - 1;
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    const std::string& name = graph.op_name(static_cast<OpId>(op));
    const int64_t stage = name == "start"             ? 0
                          : name.starts_with("left")  ? std::min<int64_t>(1, last)
                          : name.starts_with("right") ? std::min<int64_t>(2, last)
                                                      : last;
    strategy.ops[op].rules[pipe] = with_share(replicate_rule(graph, static_cast<OpId>(op)),
                                              strategy.mesh[pipe], ShareNumber::only(stage));
  }
  strategy.schedule = StageSchedule{.axis = pipe, .name = schedule};
  schedule_of(graph, strategy, stages_of(graph, strategy));
  return strategy;
}

struct NamedCase {
  std::string model, schedule, inner;
  int64_t stages = 2, inner_ranks = 1;
  int groups = 1;

  std::string name() const {
    return fmt::format("{} {}, {} stages x {} {}, {} groups", model, schedule, stages, inner_ranks,
                       inner, groups);
  }
  Graph graph() const {
    if (model == "branches") {
      return branches();
    }
    Deck deck = small_deck_of(model == "sgmoe" ? "bert" : model);
    deck.model->layers = 4;
    deck.model->tied_head = model == "gpt" ? "on" : "off";
    deck.train->batch = 6;
    if (model == "sgmoe") {
      deck.model->moe.experts = 3;
      deck.model->moe.every = 2;
      deck.model->moe.router = "top2";
    }
    return build_model(deck, kStrategyVocab);
  }
  // Throws Error(usage) where the schedule cannot have these stages.
  Strategy strategy(const Graph& graph) const {
    const Mesh mesh = {{.name = "pipe", .size = stages}, {.name = "inner", .size = inner_ranks}};
    Strategy made = named_strategy("pipe=pipeline,inner=" + inner, graph, mesh);
    made.accumulate = groups;
    return model == "branches" ? with_branches(graph, std::move(made), schedule)
                               : with_stages(graph, std::move(made), {.axis = 0, .name = schedule});
  }
};

std::vector<NamedCase> named_cases() {
  std::vector<NamedCase> cases;
  for (const char* model : {"bert", "gpt", "llama", "sgmoe", "branches"}) {
    for (const pipeline::NamedSchedule& row : pipeline::named_schedules()) {
      for (const int64_t stages : {2, 3, 4}) {
        for (const char* inner : {"dp", "megatron", "fsdp"}) {
          for (const int groups : {1, 2, 3, 5}) {
            const int64_t inner_ranks = inner == std::string("dp") && groups % 2 == 1 ? 1 : 2;
            cases.push_back({model, std::string(row.name), inner, stages, inner_ranks, groups});
          }
        }
      }
    }
  }
  return cases;
}

// HIDUP_PIPELINE_EVERY in the environment, N, selects every N-th case.
TEST(NamedPipelines, EqualOneRank) {
  const char* text = std::getenv("HIDUP_PIPELINE_EVERY");
  const int every = std::atoi(text == nullptr ? HIDUP_PIPELINE_EVERY : text);
  std::map<std::string, ShortRun> of_one_rank;
  const std::vector<NamedCase> cases = named_cases();
  int tried = 0;
  for (size_t i = 0; i < cases.size(); i += static_cast<size_t>(every)) {
    const Graph graph = cases[i].graph();
    Strategy strategy;
    try {
      strategy = cases[i].strategy(graph);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::usage) << cases[i].name() << ": " << error.what();
      continue;
    }
    ShortRun& expected = of_one_rank[cases[i].model];
    expected = expected.losses.empty() ? run_alone(graph, 2, kStrategyVocab) : expected;
    const TemporaryFolder folder;
    ShortRun found;
    ASSERT_NO_THROW(found = run_saved(graph, strategy, static_cast<int>(ranks_of(strategy.mesh)), 2,
                                      {folder / "", 1}))
        << cases[i].name();
    EXPECT_EQ(differences(expected, found), "") << cases[i].name();
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

TEST(RandomPipelines, EqualOneRank) {
  const auto [first, last] = cases_to_try("HIDUP_PIPELINE_CASES", HIDUP_PIPELINE_CASES);
  for (int number = first; number <= last; ++number) {
    try_pipeline(number);
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace hidup
