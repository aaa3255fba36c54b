// The command line: one binary with one subcommand per task.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "core/check.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/results.h"
#include "core/text.h"
#include "core/version.h"
#include "device/device.h"
#include "options.h"
#include "train/stop.h"

namespace {

using hidup::ExitCode;

constexpr const char* kExitCodes =
    "Exit codes: 0 done; 2 usage or bad deck; 3 no feasible strategy; 4 out of memory;\n"
    "5 communication failed or lost a rank; 6 bad or missing file, or no space; 7 stopped by -t, "
    "a\n"
    "signal or a file, after a checkpoint; 9 loss or gradients not finite; 8 device or library "
    "not\n"
    "available; 70 internal error.";

std::string join(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    line += (i == 0 ? "" : " ") + std::string(argv[i]);
  }
  return line;
}

// Returns true on the one rank that prints errors: the first one that parses this command line.
// mpirun may have several, each for some ranks, and Open MPI lists the numbers of ranks: "1 4".
bool speaks() {
  const char* own = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* sizes = std::getenv("OMPI_APP_CTX_NUM_PROCS");
  const int rank = own == nullptr ? 0 : std::atoi(own);
  int first = 0;
  std::istringstream numbers(sizes == nullptr ? "" : sizes);
  for (int ranks = 0; first < rank && numbers >> ranks;) {
    first += ranks;
  }
  return rank == first;
}

// Suggests corrections for arguments that no option took; else returns CLI11's own message.
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
  return fmt::format("unexpected argument {}{}", hidup::shown(word),
                     hint.empty() ? "" : fmt::format(": did you mean {}?", hint));
}

// Runs the command and returns its exit code; stores a command of many ranks in `ranks` instead.
int run(int& argc, char**& argv, std::function<int()>& ranks) {
  CLI::App app("hidup trains transformers with communication hidden behind computation.", "hidup");
  app.set_version_flag("--version", hidup::program_version());
  app.require_subcommand(1);
  app.footer(kExitCodes);
  hidup::TrainOptions train;
  hidup::DoctorOptions doctor;
  hidup::EvaluateOptions evaluated;
  hidup::GenerateOptions generated;
  hidup::ExportOptions exported;
  hidup::ProfileOptions profile;
  hidup::SearchCommandOptions search;
  hidup::ExplainOptions explained;
  hidup::ValidateOptions validate;
  hidup::GraphOptions graph;
  hidup::ScheduleOptions schedule;
  train.command_line = join(argc, argv);
  train.began = hidup::monotonic_seconds();
  hidup::add_train(app, train);
  hidup::add_evaluate(app, evaluated);
  hidup::add_generate(app, generated);
  hidup::add_export(app, exported);
  hidup::add_search(app, search);
  hidup::add_explain(app, explained);
  hidup::add_profile(app, profile);
  hidup::add_validate(app, validate);
  hidup::add_graph(app, graph);
  hidup::add_schedule(app, schedule);
  hidup::add_doctor(app, doctor);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    std::ostringstream text;
    app.exit(request, text);
    if (speaks()) {
      hidup::results::print("{}", text.str());
    }
    return 0;
  } catch (const CLI::ParseError& error) {
    if (speaks()) {
      hidup::log::error(explain(app, error) + "; see --help");
    }
    return static_cast<int>(ExitCode::usage);
  }
  if (app.got_subcommand("train")) {
    hidup::catch_stop_signals();  // before MPI starts, which takes a while
    ranks = [=, &argc, &argv] { return hidup::train(train, &argc, &argv); };
    return 0;
  }
  if (app.got_subcommand("evaluate")) {
    ranks = [=, &argc, &argv] { return hidup::evaluate(evaluated, &argc, &argv); };
    return 0;
  }
  if (app.got_subcommand("export")) {
    ranks = [=, &argc, &argv] { return hidup::export_model(exported, &argc, &argv); };
    return 0;
  }
  if (app.got_subcommand("generate")) {
    return hidup::generate(generated);
  }
  if (app.got_subcommand("profile") && !profile.absorb.empty()) {
    return hidup::absorb_run(profile);
  }
  if (app.got_subcommand("profile")) {
    ranks = [=, &argc, &argv] { return hidup::profile(profile, &argc, &argv); };
    return 0;
  }
  if (app.got_subcommand("doctor")) {
    ranks = [=, &argc, &argv] { return hidup::doctor(doctor, &argc, &argv); };
    return 0;
  }
  if (app.got_subcommand("search")) {
    return hidup::search(search);
  }
  if (app.got_subcommand("explain")) {
    return hidup::explain(explained);
  }
  if (app.got_subcommand("schedule")) {
    return hidup::schedule(schedule);
  }
  return app.got_subcommand("graph") ? hidup::graph(graph) : hidup::validate(validate);
}

}  // namespace

int main(int argc, char** argv) {
  hidup::results::open_streams();
  std::function<int()> ranks;
  try {
    const int code = run(argc, argv, ranks);
    if (!ranks) {
      if (code == 0) {
        hidup::results::finish();
      }
      return code;
    }
  } catch (...) {
    const hidup::Failure failure = hidup::current_failure();
    if (!failure.message.empty()) {
      hidup::log::error(failure.message);
    }
    return static_cast<int>(failure.code);
  }
  return ranks();  // outside of all handlers, see run_job()
}
