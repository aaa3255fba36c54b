// The options of the command line, and the subcommands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hidup {

struct TrainOptions {
  std::string deck;
  std::string cluster;
  std::string strategy;  // a name, a file or search; empty: the checkpoint's, or search
  std::string hints;     // for the search; empty: none
  std::string resume;    // a checkpoint, or auto; empty: none
  std::string init;      // initial tensors, see TensorFiles; empty: none
  std::string names;     // their naming; empty: detected
  std::optional<double> wall_time_s;  // the run stops before this time
  std::string out;                    // empty: out/MODEL-TIME.h5
  bool overwrite = false;
  std::vector<std::string> overrides;  // --set
  std::string dump_gradients;          // empty: none
  std::string command_line;            // as typed
  double began = 0.0;                  // start of the process, on monotonic_seconds()'s clock
};

struct DoctorOptions {
  TrainOptions run;      // both decks are optional
  bool compare = false;  // measures ranks and links, and names outliers
};

struct EvaluateOptions {
  std::string deck;
  std::string cluster;
  std::string resume;    // a checkpoint; empty: init
  std::string init;      // tensors, see TensorFiles
  std::string names;     // their naming; empty: detected
  std::string strategy;  // a name or a file; empty: the checkpoint's if it fits, else dp
  bool json = false;
  std::vector<std::string> overrides;
};

struct GenerateOptions {
  std::string deck;
  std::string resume;  // a checkpoint
  std::string prompt;
  int64_t tokens = 100;
  double temperature = 0.0;
  int64_t top_k = 0;  // 0: all
  uint64_t seed = 1;
  std::vector<std::string> overrides;
};

struct ExportOptions {
  std::string checkpoint;
  std::string out;    // a file NAME.safetensors, or a folder
  std::string names;  // empty: the names of the model's family, if there are any
  std::string precision = "fp32";
  bool overwrite = false;
};

struct ProfileOptions {
  std::string deck;
  std::string cluster;
  std::string out;
  std::string absorb;  // a timing file to absorb into cluster.profile; empty: measure
  bool overwrite = false;
  std::vector<std::string> overrides;
};

struct SearchCommandOptions {
  std::string deck;
  std::string cluster;
  std::string hints;  // empty: none
  std::optional<int64_t> ranks;
  std::string strategy_out;  // empty: none
  bool overwrite = false;
  bool baselines = false;  // includes the named strategies
  std::string level = "default";
  std::optional<double> time_limit_s;  // empty: the level's
  bool json = false;
  std::vector<std::string> overrides;
};

struct ExplainOptions {
  std::string deck;
  std::string cluster;
  std::string hints;                // for the search; empty: none
  std::string strategy = "search";  // a name, a file or search
  std::optional<int64_t> ranks;
  bool what_if = false;
  bool json = false;
  std::string measured;  // a timing file; excludes all of the above but json; empty: none
  std::vector<std::string> overrides;
};

struct ValidateOptions {
  std::string deck;
  std::string cluster;  // empty: none
  std::optional<int64_t> ranks;
  std::string strategy = "dp";  // a name or a file
  std::string strategy_out;     // empty: none
  std::string schedule_out;     // empty: none
  bool overwrite = false;
  std::vector<std::string> overrides;
  bool keys = false;  // prints the reference of all keys instead
};

struct GraphOptions {
  std::string deck;
  std::string format = "text";  // text, json or dot
  std::vector<std::string> overrides;
};

struct ScheduleOptions {
  std::string schedule;  // a name, or a file that ends in .csv
  int64_t stages = 0;
  int64_t microbatches = 0;
  std::optional<int64_t> devices;          // nothing: as the name says, or the file's rows
  std::string times = "1s,1s,1s";          // of a forward, backward and weights pass
  std::string forward, backward, weights;  // a time per stage; empty: as in `times`
  std::string move = "0";
  bool moves_hold = false;
  std::string pair;             // empty: the sum of both passes
  std::optional<int64_t> live;  // most live microbatches per device; nothing: as the name says
  std::optional<int64_t> k;     // of kfkb
  std::string out;              // empty: none
  bool overwrite = false;
  bool json = false;
};

// Return the process's exit code. Errors that they throw are this process's own, but train,
// evaluate, export, profile and doctor end all ranks by themselves.
int train(const TrainOptions& options, int* argc, char*** argv);
int evaluate(const EvaluateOptions& options, int* argc, char*** argv);
int export_model(const ExportOptions& options, int* argc, char*** argv);
int profile(const ProfileOptions& options, int* argc, char*** argv);
int doctor(const DoctorOptions& options, int* argc, char*** argv);
int absorb_run(const ProfileOptions& options);
int generate(const GenerateOptions& options);
int search(const SearchCommandOptions& options);
int explain(const ExplainOptions& options);
int explain_measured(const ExplainOptions& options);
int validate(const ValidateOptions& options);
int graph(const GraphOptions& options);
int schedule(const ScheduleOptions& options);

}  // namespace hidup
