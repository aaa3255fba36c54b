// The command line: one binary, one subcommand per thing a person does.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "commands.h"
#include "core/check.h"
#include "core/log.h"
#include "core/text.h"
#include "core/version.h"

namespace {

using hidup::ExitCode;

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 2 usage or bad deck; 4 out of memory; 5 communication failed or lost a\n"
    "rank; 6 bad or missing file, or no space; 8 device or library not available; 70 internal\n"
    "error.";

constexpr const char* kStrategies =
    "How to shard: a strategy file (YAML), or dp, zero1, fsdp, ep-deepspeed, ep-fastmoe, megatron, "
    "megatron-sp or ps";

std::string join(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    line += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  return line;
}

void add_train(CLI::App& app, hidup::TrainOptions& options) {
  CLI::App* train = app.add_subcommand("train", "Train a model on all ranks (start with mpirun)");
  train->add_option("DECK", options.deck, "Model deck: model, data and training")->required();
  train->add_option("--cluster", options.cluster, "Cluster deck: devices and mesh")->required();
  train->add_option("--strategy", options.strategy, kStrategies)->capture_default_str();
  train->add_option("--out", options.out, "Timing file (HDF5); by default out/MODEL-TIME.h5");
  train->add_flag("--overwrite", options.overwrite, "Replace existing output files");
  train->add_option("--set", options.overrides, "Override a deck's key: section.key=value")
      ->allow_extra_args(false);
  train->add_option("--dump-gradients", options.dump_gradients,
                    "Write the gradients of step 1 to this file (HDF5)");
}

void add_profile(CLI::App& app, hidup::ProfileOptions& options) {
  CLI::App* profile = app.add_subcommand(
      "profile", "Measure operations and collectives on all ranks (start with mpirun)");
  profile->add_option("DECK", options.deck, "Model deck: whose operations are timed")->required();
  profile->add_option("--cluster", options.cluster, "Cluster deck: devices and mesh")->required();
  profile->add_option("--out", options.out, "Profile to write (YAML), for cluster.profile")
      ->required();
  profile->add_flag("--overwrite", options.overwrite, "Replace an existing file");
  profile->add_option("--set", options.overrides, "Override a deck's key: section.key=value")
      ->allow_extra_args(false);
}

void add_validate(CLI::App& app, hidup::ValidateOptions& options) {
  CLI::App* validate =
      app.add_subcommand("validate", "Check decks without ranks, devices or a run");
  validate->add_option("DECK", options.deck, "Model deck");
  validate->add_option("--cluster", options.cluster, "Cluster deck");
  validate->add_option("--ranks", options.ranks, "Check the mesh for this many ranks");
  validate->add_option("--strategy", options.strategy, kStrategies)->capture_default_str();
  validate->add_option("--strategy-out", options.strategy_out,
                       "Write the strategy to this file (YAML), to read, edit and train with");
  validate->add_flag("--overwrite", options.overwrite, "Replace an existing file");
  validate->add_option("--set", options.overrides, "Override a deck's key: section.key=value")
      ->allow_extra_args(false);
  validate->add_flag("--keys", options.keys, "Print the reference of all keys (Markdown)");
}

void add_graph(CLI::App& app, hidup::GraphOptions& options) {
  CLI::App* graph = app.add_subcommand(
      "graph", "Show a model's operations, tensors and all legal ways to shard them");
  graph->add_option("DECK", options.deck, "Model deck")->required();
  graph->add_option("--format", options.format, "text (which model.graph reads), json or dot")
      ->check(CLI::IsMember({"text", "json", "dot"}))
      ->capture_default_str();
  graph->add_option("--set", options.overrides, "Override a deck's key: section.key=value")
      ->allow_extra_args(false);
}

void add_doctor(CLI::App& app) {
  app.add_subcommand("doctor",
                     "Show libraries, the device of every rank, and what looks wrong (start with "
                     "mpirun as you would train)");
}

// Under mpirun every rank parses the same command line; one of them says what is wrong.
bool speaks() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr || std::string_view(rank) == "0";
}

// What the arguments that nothing took were probably meant to be; CLI11's own words
// where there are none.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) {
    return error.what();
  }
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  std::vector<std::string> known;
  if (parsed.empty()) {
    for (const CLI::App* subcommand : app.get_subcommands(nullptr)) {
      known.push_back(subcommand->get_name());
    }
  } else {
    for (const CLI::Option* option : parsed.front()->get_options()) {
      known.push_back(option->get_name());
    }
  }
  const std::string& word = rest.front();
  const std::string hint = hidup::nearest(word.substr(0, word.find('=')), known);
  return fmt::format("unexpected argument {}{}", word,
                     hint.empty() ? "" : fmt::format(": did you mean {}?", hint));
}

int run(int argc, char** argv) {
  CLI::App app("hidup trains transformers with communication hidden behind computation.", "hidup");
  app.set_version_flag("--version", hidup::program_version());
  app.require_subcommand(1);
  app.footer(kExitCodes);
  hidup::TrainOptions train;
  hidup::ProfileOptions profile;
  hidup::ValidateOptions validate;
  hidup::GraphOptions graph;
  train.command_line = join(argc, argv);
  add_train(app, train);
  add_profile(app, profile);
  add_validate(app, validate);
  add_graph(app, graph);
  add_doctor(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return speaks() ? app.exit(request) : 0;
  } catch (const CLI::ParseError& error) {
    if (speaks()) {
      hidup::log::error(explain(app, error) + "; see --help");
    }
    return static_cast<int>(ExitCode::usage);
  }
  if (app.got_subcommand("train")) {
    return hidup::train(train, &argc, &argv);
  }
  if (app.got_subcommand("profile")) {
    return hidup::profile(profile, &argc, &argv);
  }
  if (app.got_subcommand("doctor")) {
    return hidup::doctor(&argc, &argv);
  }
  return app.got_subcommand("graph") ? hidup::graph(graph) : hidup::validate(validate);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const hidup::Error& error) {
    if (*error.what() != '\0') {
      hidup::log::error(error.what());
    }
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    hidup::log::error(error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
