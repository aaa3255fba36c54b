#include "options.h"

#include <cstdint>
#include <optional>
#include <string>

#include "core/limits.h"
#include "core/text.h"
#include "number_option.h"
#include "schedule/named.h"
#include "search/named/named_strategies.h"
#include "train/stop.h"

namespace hidup {
namespace {

constexpr const char* kPerAxis = ", or one of these per axis of the mesh: node=dp,gpu=megatron";

const std::string kStrategies =
    "How to shard: a strategy file (YAML), or " + strategy_names() + kPerAxis;

const std::string kStrategyOrSearch =
    "How to shard: search for the fastest way; or a strategy file (YAML), or " + strategy_names() +
    kPerAxis;

constexpr const char* kOverride =
    "Override a deck's key: section.key=value, or cluster.mesh.AXIS.key=value";
constexpr const char* kOverwrite = "Replace existing output files";
constexpr const char* kStrategyOut =
    "Write the strategy to this file (YAML), to read, edit and train with";

// Adds a subcommand that takes a model deck.
template <typename Options>
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& doc,
                      Options& options) {
  CLI::App* command = app.add_subcommand(name, doc);
  command->add_option("DECK", options.deck, "Model deck: model, data and training")->required();
  command->add_option("--set", options.overrides, kOverride)->allow_extra_args(false);
  return command;
}

void add_cluster(CLI::App& command, std::string& cluster) {
  command.add_option("--cluster", cluster, "Cluster deck: devices and mesh")->required();
}

void add_ranks(CLI::App& command, std::optional<int64_t>& ranks) {
  add_number(command, "--ranks", ranks, int64_t{1}, kMaxRanks,
             "Number of ranks; by default what the mesh of the cluster deck has");
}

void add_hints(CLI::App& command, std::string& hints) {
  command.add_option(
      "--hints", hints,
      "What the search takes as given: a strategy file of which parts may be missing");
}

double wall_time(const std::string& text) {
  const std::optional<double> seconds = parse_wall_time(text);
  if (!seconds) {
    throw CLI::ValidationError("-t",
                               fmt::format("{}: expected hh:mm:ss, such as 01:30:00", shown(text)));
  }
  return *seconds;
}

void add_names(CLI::App& command, std::string& names, const std::string& otherwise) {
  command.add_option("--names", names,
                     "Whose names the tensors have: hidup, gpt2 or llama (as transformers has "
                     "them); by default " +
                         otherwise);
}

CLI::Option* add_init(CLI::App& command, std::string& init, std::string& names) {
  CLI::Option* option = command.add_option(
      "--init", init,
      "Parameters of a model in safetensors: a file, an index of several, or the folder that "
      "transformers' save_pretrained() wrote, whose config.json the deck is checked against");
  add_names(command, names, "those that they have");
  command.get_option("--names")->needs(option);
  return option;
}

// Adds the options of train and doctor.
void add_run_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--strategy", options.strategy,
                     kStrategyOrSearch + "; by default that of the checkpoint, or search");
  command.footer(strategies_help());
  add_hints(command, options.hints);
  command.add_option("--resume", options.resume,
                     "Go on from this checkpoint; auto: from the newest complete one of the run's "
                     "folder, or from the start where there is none");
  add_init(command, options.init, options.names);
  command.add_option_function<std::string>(
      "-t", [&options](const std::string& text) { options.wall_time_s = wall_time(text); },
      "Wall time, hh:mm:ss: the run writes a checkpoint and stops before it is over");
  command.add_option("--out", options.out, "Timing file (HDF5); by default out/MODEL-TIME.h5");
  command.add_flag("--overwrite", options.overwrite, kOverwrite);
  command.add_option("--dump-gradients", options.dump_gradients,
                     "Write the gradients of step 1 to this file (HDF5)");
}

}  // namespace

void add_train(CLI::App& app, TrainOptions& options) {
  CLI::App* train =
      add_command(app, "train", "Train a model on all ranks (start with mpirun)", options);
  add_cluster(*train, options.cluster);
  add_run_options(*train, options);
}

void add_evaluate(CLI::App& app, EvaluateOptions& options) {
  CLI::App* evaluate = add_command(
      app, "evaluate",
      "Measure the loss of a trained model on data.validation, on all ranks (start with mpirun)",
      options);
  add_cluster(*evaluate, options.cluster);
  CLI::Option* resume =
      evaluate->add_option("--resume", options.resume, "Checkpoint that has the model");
  resume->excludes(add_init(*evaluate, options.init, options.names));
  evaluate->add_option("--strategy", options.strategy,
                       kStrategies + "; by default the checkpoint's where it fits, else dp");
  evaluate->footer(strategies_help());
  evaluate->add_flag("--json", options.json, "Print one JSON object");
}

void add_generate(CLI::App& app, GenerateOptions& options) {
  CLI::App* generate = add_command(
      app, "generate", "Show how a trained model goes on with a text, on one process", options);
  generate->add_option("--resume", options.resume, "Checkpoint that has the model")->required();
  generate->add_option("--prompt", options.prompt, "The text")->required();
  constexpr int64_t kMost = 1'000'000'000;
  add_number(*generate, "--tokens", options.tokens, int64_t{0}, kMost, "How many tokens to add");
  add_number(*generate, "--temperature", options.temperature, 0.0, 1e6,
             "Draw tokens from the softmax of logits / temperature; 0: the most likely one");
  add_number(*generate, "--top-k", options.top_k, int64_t{0}, kMost,
             "Draw among the k most likely ones; 0: all");
  add_number(*generate, "--seed", options.seed, uint64_t{0}, UINT64_MAX, "Of the random numbers");
}

void add_export(CLI::App& app, ExportOptions& options) {
  CLI::App* command = app.add_subcommand(
      "export", "Write a checkpoint's parameters as safetensors (with mpirun on several ranks)");
  command->add_option("CHECKPOINT", options.checkpoint, "Checkpoint that has the model")
      ->required();
  command
      ->add_option("--out", options.out,
                   "A file NAME.safetensors; or a folder, for model.safetensors and, with names "
                   "of transformers, a config.json that from_pretrained() reads")
      ->required();
  add_names(*command, options.names, "gpt2 or llama where the model is of that family");
  command->add_option("--precision", options.precision, "Of the elements: fp32, bf16 or fp16")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->capture_default_str();
  command->add_flag("--overwrite", options.overwrite, kOverwrite);
}

void add_profile(CLI::App& app, ProfileOptions& options) {
  CLI::App* profile = add_command(
      app, "profile",
      "Measure a model's operations, and collectives, on all ranks (start with mpirun)", options);
  add_cluster(*profile, options.cluster);
  profile->add_option("--out", options.out, "Profile to write (YAML), for cluster.profile")
      ->required();
  profile->add_option("--absorb", options.absorb,
                      "Instead of measuring, take the profile that cluster.profile names, and the "
                      "times of this timing file where instructions ran alone; without mpirun");
  profile->add_flag("--overwrite", options.overwrite, kOverwrite);
}

void add_search(CLI::App& app, SearchCommandOptions& options) {
  CLI::App* search = add_command(
      app, "search",
      "Find the fastest strategy for a model and a cluster, without ranks or devices", options);
  add_cluster(*search, options.cluster);
  add_ranks(*search, options.ranks);
  add_hints(*search, options.hints);
  search->add_option("--strategy-out", options.strategy_out, kStrategyOut);
  search->add_flag("--overwrite", options.overwrite, kOverwrite);
  search->add_flag("--baselines", options.baselines,
                   "Predict the strategies that have a name, too, and say why they lost");
  search
      ->add_option(
          "--level", options.level,
          "fast: the plan alone; default: and proof of how good it is, as far as that takes "
          "a few seconds; thorough: for up to a minute")
      ->check(CLI::IsMember({"fast", "default", "thorough"}))
      ->capture_default_str();
  add_number(*search, "--time-limit", options.time_limit_s, 1e-6, 1e9,
             "Seconds after which the best so far is returned (default 10; thorough: 60)");
  search->add_flag("--json", options.json, "Print one JSON object");
}

void add_explain(CLI::App& app, ExplainOptions& options) {
  CLI::App* explain = add_command(
      app, "explain",
      "Say what a strategy does, where its step's time goes, and why others lose to it", options);
  add_cluster(*explain, options.cluster);
  explain->add_option("--strategy", options.strategy, kStrategyOrSearch)->capture_default_str();
  explain->footer(strategies_help());
  add_ranks(*explain, options.ranks);
  add_hints(*explain, options.hints);
  explain->add_flag(
      "--what-if", options.what_if,
      "Search again with twice the bandwidth or ranks of each axis, twice the memory, "
      "gradients in bf16, and without each hint: what a step gains by each");
  explain->add_flag("--json", options.json,
                    "Print one JSON object, which python3 -m analysis timeline draws, too");
  CLI::Option* measured = explain->add_option(
      "--measured", options.measured,
      "Instead: of this timing file, say which operations took other times than predicted");
  for (const char* name :
       {"DECK", "--set", "--cluster", "--strategy", "--ranks", "--hints", "--what-if"}) {
    measured->excludes(explain->get_option(name)->required(false));
  }
}

void add_validate(CLI::App& app, ValidateOptions& options) {
  CLI::App* validate =
      app.add_subcommand("validate", "Check decks without ranks, devices or a run");
  validate->add_option("DECK", options.deck, "Model deck");
  validate->add_option("--cluster", options.cluster, "Cluster deck");
  add_ranks(*validate, options.ranks);
  validate->add_option("--strategy", options.strategy, kStrategies)->capture_default_str();
  validate->footer(strategies_help());
  validate->add_option("--strategy-out", options.strategy_out, kStrategyOut);
  validate->add_option("--schedule-out", options.schedule_out,
                       "Write the order in which the stages of a pipeline work to this file (CSV), "
                       "to read, edit and train with (train.pipeline)");
  validate->add_flag("--overwrite", options.overwrite, kOverwrite);
  validate->add_option("--set", options.overrides, kOverride)->allow_extra_args(false);
  validate->add_flag("--keys", options.keys, "Print the reference of all keys (Markdown)");
}

void add_graph(CLI::App& app, GraphOptions& options) {
  CLI::App* graph = add_command(
      app, "graph", "Show a model's operations, tensors and all legal ways to shard them", options);
  graph->add_option("--format", options.format, "text (which model.graph reads), json or dot")
      ->check(CLI::IsMember({"text", "json", "dot"}))
      ->capture_default_str();
}

void add_schedule(CLI::App& app, ScheduleOptions& options) {
  CLI::App* schedule = app.add_subcommand(
      "schedule", "Show the order in which the stages of a pipeline work, without a model");
  schedule
      ->add_option("SCHEDULE", options.schedule,
                   "A file that ends in .csv, as torch.distributed.pipelining has it, or " +
                       pipeline::schedule_names())
      ->required();
  schedule->footer(pipeline::schedules_help());
  constexpr int64_t kMost = 100'000;
  add_number(*schedule, "--stages", options.stages, int64_t{1}, kMost,
             "Number of stages, all chunks of all devices")
      ->required()
      ->default_str("");
  add_number(*schedule, "--microbatches", options.microbatches, int64_t{1}, kMost,
             "Number of microbatches")
      ->required()
      ->default_str("");
  add_number(*schedule, "--devices", options.devices, int64_t{1}, kMost,
             "Number of devices; by default as many as stages, or half with two stages per "
             "device");
  schedule
      ->add_option("--times", options.times,
                   "Times of a stage's forward, backward and weights pass; backward is without the "
                   "gradients of parameters")
      ->capture_default_str();
  schedule->add_option("--forward", options.forward, "A time per stage: 3ms,4ms,...");
  schedule->add_option("--backward", options.backward, "A time per stage");
  schedule->add_option("--weights", options.weights, "A time per stage");
  schedule->add_option("--move", options.move, "Time of a move to the next device")
      ->capture_default_str();
  schedule->add_flag("--moves-hold", options.moves_hold,
                     "A move holds both devices, as blocking sends and receives do; by default "
                     "results move beside the computation");
  schedule->add_option("--pair", options.pair,
                       "Time of a forward and a backward pass at once; by default their sum");
  add_number(*schedule, "--live", options.live, int64_t{1}, int64_t{1'000'000'000},
             "Most live microbatches of a device: forward pass done, backward pass not. Of "
             "a name's limits, device 0 gets this one and the others theirs in proportion");
  add_number(*schedule, "--k", options.k, int64_t{1}, kMost,
             "How many times the live microbatches of 1f1b kfkb has (default 2)");
  schedule->add_option("--out", options.out, "Write the schedule to this file (CSV)");
  schedule->add_flag("--overwrite", options.overwrite, kOverwrite);
  schedule->add_flag("--json", options.json,
                     "Print one JSON object, which python3 -m analysis schedule draws, too");
}

void add_doctor(CLI::App& app, DoctorOptions& options) {
  CLI::App* doctor = app.add_subcommand(
      "doctor",
      "Show libraries, the device of every rank, what a run would find, and what looks wrong "
      "(start with mpirun, and the same arguments, as you would train)");
  doctor->add_option("DECK", options.run.deck, "Model deck");
  doctor->add_option("--cluster", options.run.cluster, "Cluster deck");
  doctor->add_option("--set", options.run.overrides, kOverride)->allow_extra_args(false);
  add_run_options(*doctor, options.run);
  doctor->add_flag("--compare", options.compare,
                   "Measure products, memory and the link of every pair of ranks, and name those "
                   "that are slower than others like them");
}

}  // namespace hidup
