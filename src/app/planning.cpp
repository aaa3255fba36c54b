#include "app/planning.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "app/costs.h"
#include "app/expert_loads.h"
#include "app/pipeline_report.h"
#include "core/check.h"
#include "core/file.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/device_classes.h"
#include "deck/model_deck.h"
#include "deck/search_deck.h"
#include "deck/train_deck.h"
#include "graph/batch.h"
#include "models/graph_file.h"
#include "models/transformer.h"
#include "schedule/csv.h"
#include "schedule/named.h"
#include "search/estimate/choose_routes.h"
#include "search/memory_limit.h"
#include "search/named/named_strategies.h"
#include "search/named/pipeline.h"
#include "sharding/hints.h"
#include "sharding/memory_choices.h"
#include "sharding/read_strategy.h"
#include "sharding/stages.h"
#include "train/dataset.h"
#include "train/tokens.h"

namespace hidup {
namespace {

// 10,000 layers need about 25 MiB.
constexpr int64_t kStrategyBytes = 32 << 20;

// Names of strategies have no dots or slashes.
bool looks_like_file(const std::string& text) {
  return text.find_first_of("./") != std::string::npos;
}

// Returns the deck's number of parts of the batch, if any. Throws Error(usage) where the graph
// cannot be split.
std::optional<int> wanted_parts(const Deck& deck, const std::string& key,
                                const std::optional<int64_t>& wanted, const std::string& obstacle) {
  if (wanted.value_or(1) > 1 && !obstacle.empty()) {
    fail_at(deck, key, fmt::format("{}: {}", key, obstacle));
  }
  return wanted ? std::optional(static_cast<int>(*wanted)) : std::nullopt;
}

std::optional<int> wanted_microbatches(const Deck& deck, const Graph& graph) {
  const std::string obstacle = batch_obstacle(graph);
  return wanted_parts(
      deck, "train.microbatches", deck.train->microbatches,
      obstacle.empty() ? "" : "the batch of this graph cannot be split: " + obstacle);
}

std::optional<int> wanted_groups(const Deck& deck, const Graph& graph) {
  return wanted_parts(deck, "train.accumulate", deck.train->accumulate, accumulate_obstacle(graph));
}

// Applies the deck's numbers of parts. The groups that a name alone stands for leave room for the
// deck's microbatches.
Strategy with_parts(const Deck& deck, const Graph& graph, Strategy strategy, bool named) {
  strategy.microbatches = wanted_microbatches(deck, graph).value_or(strategy.microbatches);
  if (named) {
    const int64_t most = batch_of(graph) / strategy.microbatches;
    strategy.accumulate =
        static_cast<int>(std::min<int64_t>(strategy.accumulate, std::max<int64_t>(most, 1)));
  }
  strategy.accumulate = wanted_groups(deck, graph).value_or(strategy.accumulate);
  const int64_t parts = int64_t{strategy.microbatches} * strategy.accumulate;
  if (parts > std::max<int64_t>(batch_of(graph), 1)) {  // the deck's and the strategy's together
    fail_at(deck, deck.train->accumulate ? "train.accumulate" : "train.microbatches",
            fmt::format("{} groups of {} microbatches are more than the {} sequences of a step",
                        strategy.accumulate, strategy.microbatches, batch_of(graph)));
  }
  return strategy;
}

bool is_schedule_file(const Deck& deck) {
  return deck.train->pipeline.ends_with(".csv");
}

// Returns the schedule that train.pipeline says, for the axis. `microbatches`: of a CSV file.
StageSchedule wanted_schedule(const Deck& deck, size_t axis, int microbatches) {
  const std::string& wanted = deck.train->pipeline;
  StageSchedule schedule{.axis = axis, .name = wanted};
  if (is_schedule_file(deck)) {
    const std::string text = read_text_file(wanted, "schedule");
    schedule.name = kCustomSchedule;
    schedule.custom =
        pipeline::read_csv(text, pipeline::chunks_in_csv(text), microbatches).schedule;
  } else if (pipeline::find_schedule(wanted) == nullptr) {
    const std::string name = std::filesystem::path(wanted).filename();
    fail(ExitCode::usage, "expected auto, {}, or a file that ends in .csv, found {}{}",
         pipeline::schedule_names(), shown(name), pipeline::schedule_hint(name));
  }
  return schedule;
}

// Applies train.pipeline. A strategy by name gets the stages that the schedule needs.
Strategy with_pipeline(const Deck& deck, const Graph& graph, Strategy strategy, bool named) {
  if (deck.train->pipeline.empty()) {
    return strategy;
  }
  try {
    check_has_stages(strategy);
    StageSchedule schedule = wanted_schedule(deck, strategy.schedule->axis, strategy.accumulate);
    if (named) {
      return with_stages(graph, std::move(strategy), schedule);
    }
    schedule.cuts = strategy.schedule->cuts;
    strategy.schedule = std::move(schedule);
    schedule_of(graph, strategy, stages_of(graph, strategy));  // throws where it does not fit
    return strategy;
  } catch (const Error& error) {
    fail_at(deck, "train.pipeline", fmt::format("train.pipeline: {}", error.what()), error.code());
  }
}

// Adds train.accumulate and train.recompute where the hints leave them open.
void add_hints_of(const Deck& deck, const Graph& graph, const Mesh& mesh, Hints& hints) {
  if (hints.empty()) {
    hints.mesh = mesh;
  }
  if (!hints.accumulate) {
    hints.accumulate = wanted_groups(deck, graph);
  }
  const Recompute level = recompute_of(deck.train->recompute);
  if (level == Recompute::none) {  // the search may choose to recompute
    return;
  }
  const std::vector<bool> recomputed = recomputed_ops(graph, level);
  hints.resize_ops(recomputed.size(), mesh.size());
  for (size_t op = 0; op < recomputed.size(); ++op) {
    std::optional<bool>& recompute = hints.ops[op].recompute;
    if (recomputed[op] && !recompute) {
      recompute = true;
    }
  }
}

// Adds the deck's place to errors in a graph of its sizes.
Graph build_family(const Deck& deck, int64_t vocab) {
  try {
    return build_model(deck, vocab);
  } catch (const Error& error) {
    fail_at(deck, "model", error.what(), error.code());
  }
}

// Checks that each pattern matches the name of a parameter.
void check_patterns(const Deck& deck, const Graph& graph) {
  for (const std::string& pattern : *deck.train->no_decay) {
    const auto is_like = [&](const Tensor& tensor) {
      return tensor.role == Tensor::Role::parameter && matches(pattern, tensor.name);
    };
    if (std::ranges::none_of(graph.tensors(), is_like)) {
      fail_at(deck, "train.no_decay",
              fmt::format("train.no_decay: {} is like the name of no parameter; hidup graph shows "
                          "them",
                          shown(pattern)));
    }
  }
}

}  // namespace

DType element_type(const std::string& precision) {
  return precision == "bf16" ? DType::bf16 : precision == "fp16" ? DType::f16 : DType::f32;
}

std::string read_strategy_file(const std::string& file, std::string_view what) {
  return read_text_file(file, what, kStrategyBytes);
}

std::string graph_text(const Deck& deck) {
  return deck.model->graph.empty() ? "" : read_text_file(deck.model->graph, "graph");
}

Graph make_graph(const Deck& deck, const std::string& text, int64_t vocab) {
  Graph graph = deck.model->graph.empty() ? build_family(deck, vocab)
                                          : read_graph(text, deck.model->graph, deck, vocab);
  if (deck.train->no_decay) {
    check_patterns(deck, graph);
    graph = with_decay(std::move(graph), *deck.train->no_decay);
  }
  graph = with_precision(std::move(graph), element_type(deck.model->precision));
  return with_slack(with_loads(std::move(graph), deck.model->moe.loads), deck.model->moe.slack);
}

std::vector<NamedFile> files_read(const std::string& model, const std::string& cluster,
                                  const Deck& deck, const std::string& choice,
                                  const std::string& hints) {
  const std::string& profile = deck.cluster->profile;
  std::vector<NamedFile> files = {
      {"the model deck", model},
      {"the cluster deck", cluster},
      {"the graph", deck.model->graph},
      {"the expert loads", deck.model->moe.load},
      {"the recorded loads", deck.data->trace},
      {"the profile", profile == "auto" ? "" : profile},
      {"the strategy", looks_like_file(choice) ? choice : ""},
      {"the schedule", is_schedule_file(deck) ? deck.train->pipeline : ""},
      {"the hints", hints}};
  const auto add = [&](const char* what, const std::vector<std::string>& patterns,
                       const std::string& key) {
    for (const std::string& pattern :
         patterns) {  // a pattern may match no file: planning needs no data
      for (const std::string& path : matching_paths(pattern, key)) {
        files.push_back({what, path});
      }
    }
  };
  add("the data", deck.data->path, "data.path");
  add("the validation data", deck.data->validation.path, "data.validation");
  return files;
}

Mesh mesh_of(const Deck& deck, const std::vector<int64_t>& sizes) {
  Mesh mesh;
  for (size_t a = 0; a < sizes.size(); ++a) {
    mesh.push_back(
        {.name = deck.cluster->mesh[a].name, .size = sizes[a], .numbered = static_cast<int>(a)});
  }
  const auto pace = [&](const Axis& axis) {
    const MeshAxis& link = axis_of(*deck.cluster, axis.name);
    return std::tuple(link.bandwidth.value_or(0.0) / static_cast<double>(link.shared),
                      -link.latency.value_or(0.0), axis.size, axis.name);
  };
  const bool rated = std::ranges::all_of(
      deck.cluster->mesh, [](const MeshAxis& axis) { return axis.bandwidth.has_value(); });
  if (rated) {
    std::ranges::sort(mesh, {}, pace);
  }
  const std::vector<double> paces = rated_paces(deck, mesh);
  return with_paces(std::move(mesh), paces);
}

namespace {

// The type in which sums of gradients are sent.
DType gradient_type(const Deck& deck) {
  const std::string& gradients = deck.train->gradients;
  return gradients == "model"  ? element_type(deck.model->precision)
         : gradients == "bf16" ? DType::bf16
                               : DType::f32;
}

}  // namespace

LoweringOptions lowering_options(const Deck& deck) {
  const TrainDeck& train = *deck.train;
  return {.bucket_bytes = train.bucket_bytes,
          .gradients_as = gradient_type(deck),
          .clip_norm = train.clip_norm,
          .optimizer = {.beta1 = train.beta1,
                        .beta2 = train.beta2,
                        .decoupled = train.optimizer == "adamw",
                        .epsilon = train.epsilon,
                        .weight_decay = train.weight_decay}};
}

PlannedData data_for_planning(const Deck& deck) {
  const std::optional<int64_t> vocab = vocab_of(deck);
  if (vocab && !deck.data->path.empty()) {
    return {*vocab, "not looked at: the deck says all sizes", false};
  }
  try {
    const Dataset data = open_data(deck);
    return {data.vocab, data.description};
  } catch (const Error& error) {
    if (error.code() != ExitCode::file) {
      throw;
    }
    fail(ExitCode::file, "{}; with a number in model.vocab a plan needs no data", error.what());
  }
}

PlanningInput read_planning_input(const std::string& model, const std::string& cluster,
                                  const std::vector<std::string>& overrides,
                                  std::optional<int64_t> ranks) {
  const DeckSource model_text = read_deck_file(model);
  const DeckSource cluster_text = cluster.empty() ? DeckSource{} : read_deck_file(cluster);
  Deck deck = parse_decks(&model_text, cluster.empty() ? nullptr : &cluster_text, overrides, ranks);
  const std::string loads = expert_loads_text(deck);
  const std::string trace = trace_text(deck);
  deck = with_trace(with_expert_loads(std::move(deck), loads), trace);
  int64_t all = 1;
  for (const MeshAxis& axis : deck.cluster->mesh) {
    all *= axis.size.value_or(1);
  }
  Mesh mesh = mesh_of(deck, check_ranks(deck, ranks.value_or(all)));
  PlannedData data = data_for_planning(deck);
  Graph graph = make_graph(deck, graph_text(deck), data.vocab);
  return {std::move(deck), std::move(mesh), std::move(data), std::move(graph)};
}

void check_strategy_choice(const std::string& name_or_file) {
  if (!name_or_file.empty() && name_or_file != kSearch && !looks_like_file(name_or_file)) {
    check_strategy_name(name_or_file);
  }
}

Strategy choose_strategy(const std::string& name_or_file, const Deck& deck, const Graph& graph,
                         const Mesh& mesh, const std::optional<Profile>& costs) {
  const bool named = !looks_like_file(name_or_file);
  const Mesh paced = costs ? with_measured_paces(mesh, *costs) : mesh;
  Strategy strategy = with_pipeline(
      deck, graph,
      with_parts(deck, graph,
                 named ? with_recompute(graph, named_strategy(name_or_file, graph, paced),
                                        recompute_of(deck.train->recompute))
                       : parse_strategy(graph, mesh, read_strategy_file(name_or_file, "strategy"),
                                        name_or_file),
                 named),
      named);
  return named && costs
             ? with_routes(graph, std::move(strategy), lowering_options(deck), CostModel(*costs))
             : strategy;
}

std::optional<Strategy> stored_strategy(const std::string& text, const Deck& deck,
                                        const Graph& graph, const Mesh& mesh) {
  try {
    return with_pipeline(
        deck, graph,
        with_parts(deck, graph, parse_strategy(graph, mesh, text, "the checkpoint's strategy"),
                   false),
        false);
  } catch (const Error& error) {
    check(error.code() == ExitCode::usage, "{}", error.what());
    return std::nullopt;
  }
}

void check_that_a_search_fits(const Deck& deck) {
  if (!deck.train->pipeline.empty()) {
    fail_at(deck, "train.pipeline",
            "train.pipeline: a search makes no pipelines; name the strategy pipeline on an axis");
  }
}

SearchOptions search_options(const Deck& deck, const Graph& graph, const Mesh& mesh,
                             const std::string& hints) {
  SearchOptions options{.time_limit_s = kSearchTime, .lowering = lowering_options(deck)};
  options.effort.best_first = deck.search->method == "astar";
  const std::vector<DeviceClass> devices = device_classes(*deck.cluster);
  std::vector<int64_t> memory;
  for (const size_t item : classes_of_ranks(*deck.cluster, ranks_of(mesh))) {
    memory.push_back(devices[item].memory.value_or(0));
  }
  limit_memory(options, memory);
  if (!hints.empty()) {
    options.hints = read_hints(graph, mesh, read_strategy_file(hints, "hints"), hints);
  }
  add_hints_of(deck, graph, mesh, options.hints);
  if (const std::optional<int> wanted = wanted_microbatches(deck, graph)) {
    options.microbatches = {*wanted};
  }
  return options;
}

}  // namespace hidup
