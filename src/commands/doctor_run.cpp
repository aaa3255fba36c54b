#include "commands/doctor_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>

#include "app/costs.h"
#include "app/inputs.h"
#include "app/machine.h"
#include "app/planning.h"
#include "app/run_files.h"
#include "checkpoint/folder.h"
#include "comm/collective.h"
#include "core/text.h"
#include "core/units.h"
#include "cost/profile.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "io/output_path.h"
#include "program/lower.h"
#include "sharding/hints.h"
#include "train/dataset.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;

// Throws Error(file) if no file can be created at the path, whose folders need not exist yet.
void check_writable(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error).parent_path();
  while (!folder.empty() && folder != folder.root_path() && !fs::exists(folder, error)) {
    folder = folder.parent_path();
  }
  if (!fs::is_directory(folder, error)) {
    fail(ExitCode::file, "{}: {} is not a folder", path, folder.string());
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ExitCode::file, "{}: cannot write in the folder {}: {}", path, folder.string(),
         std::strerror(errno));
  }
}

// Repeats the steps of `train` up to the first that takes long. A failed step becomes a finding,
// and the steps that depend on it are skipped.
class Inspection {
 public:
  Inspection(const TrainOptions& options, MpiSession& mpi) : options_(options), mpi_(mpi) {}

  RunCheckup run() {
    if (!options_.deck.empty() || !options_.cluster.empty()) {
      read_decks();
    }
    if (read_) {
      inspect_cluster();
      inspect_model();
    }
    if (!with_graph_) {
      inspect_names();
    }
    inspect_outputs();
    return std::move(found_);
  }

 private:
  Communicator& world() { return mpi_.world(); }  // another one after order_ranks()

  // Returns true if the collective work succeeded on all ranks.
  bool attempt(const std::function<void()>& work) {
    std::string mine;
    bool done = true;
    try {
      work();
    } catch (const CollectiveError& error) {
      mine = error.what();
      done = false;
    }
    if (!done) {
      const std::vector<std::string> messages = gather_texts(world(), mine);
      for (size_t rank = 0; rank < messages.size(); ++rank) {
        std::istringstream lines(messages[rank]);
        for (std::string line; std::getline(lines, line);) {
          found_.findings.push_back(rank == 0 ? line : fmt::format("rank {}: {}", rank, line));
        }
      }
    }
    return done;
  }

  // Do the same for work that each rank does for itself, and for work of rank 0.
  bool together(const std::function<void()>& work) {
    return attempt([&] { collectively(world(), work); });
  }
  bool alone(const std::function<void()>& work) {
    return together([&] {
      if (world().rank() == 0) {
        work();
      }
    });
  }

  void fact(const std::string& name, const std::string& text) {
    found_.facts.push_back(fmt::format("{:<12}  {}", name, text));
  }

  void read_decks() {
    read_ = attempt([&] {
      decks_ =
          load_decks(options_.deck, options_.cluster, options_.overrides, world(), mpi_.host());
      found_.deck = decks_.deck;
    });
    found_.has_cluster = read_ && !options_.cluster.empty();
  }

  void inspect_cluster() {
    if (options_.cluster.empty()) {
      return;
    }
    fact("cluster deck", options_.cluster);
    const auto make_mesh = [&] {
      mesh_ = mesh_of(decks_.deck, check_ranks(decks_.deck, world().size()));
    };
    if (together(make_mesh)) {
      if (!order_ranks(decks_, *mesh_, mpi_).empty()) {
        make_mesh();
        found_.deck = decks_.deck;
      }
      std::string text;
      for (const Mesh::value_type& axis : *mesh_) {
        text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis.name, axis.size);
      }
      fact("mesh", text);
    }
    describe_classes();
    choose_communication();
    const std::string& profile = decks_.deck.cluster->profile;
    if (!profile.empty() && profile != "auto" &&
        alone([&] { parse_profile(read_profile_file(profile), profile); })) {
      fact("profile", profile);
    }
  }

  void describe_classes() {
    const ClusterDeck& cluster = *decks_.deck.cluster;
    const DividedRanks divided = divide_ranks(cluster, world().size());
    const std::vector<DeviceClass> devices = device_classes(cluster);
    for (size_t item = 0; item < cluster.devices.size() && !divided.misfit; ++item) {
      std::vector<int> ranks;
      for (size_t rank = 0; rank < divided.items.size(); ++rank) {
        if (divided.items[rank] == item) {
          ranks.push_back(static_cast<int>(rank));
        }
      }
      const DeviceClass& device = devices[item];
      fact("devices",
           fmt::format("{}: {}{}{}", format_ranks(ranks), device.kind,
                       device.flops ? fmt::format(", {:.4g} TFLOPS", 1e-12 * *device.flops) : "",
                       device.memory ? ", " + format_bytes(*device.memory) : ""));
    }
  }

  // Does nothing if a rank has no device, which its place reports.
  void choose_communication() {
    const DeviceOptions options = device_options(decks_.deck, mpi_);
    std::unique_ptr<Device> device;
    try {
      device = make_device(options);
    } catch (const Error&) {
    }
    const std::vector<char> all = all_gather_value(world(), static_cast<char>(device != nullptr));
    if (std::ranges::count(all, 0) > 0) {
      return;
    }
    take_free_memory(*device, world());  // communicators of a run take some of it
    memory_ = std::ranges::min(all_gather_value(world(), device->memory()));
    std::string backend;
    if (together([&] { backend = choose_backend(decks_.deck, mpi_, *device); })) {
      fact("collectives", backend);
    }
  }

  void inspect_model() {
    if (options_.deck.empty()) {
      return;
    }
    fact("model deck", options_.deck);
    std::optional<Dataset> data;
    if (!attempt([&] { data = load_data(decks_.deck, world()); })) {
      return;
    }
    fact("data", data->description);
    std::optional<Graph> graph;
    if (together([&] { graph.emplace(make_graph(decks_.deck, decks_.graph, data->vocab)); })) {
      fact("model",
           fmt::format("{}, {} parameters", graph->name(), format_count(graph->parameter_count())));
      inspect_strategy(*graph);
    }
  }

  void inspect_strategy(const Graph& graph) {
    if (!mesh_) {
      return;
    }
    with_graph_ = true;
    if (!options_.hints.empty() && alone([&] {
          read_hints(graph, *mesh_, read_strategy_file(options_.hints, "hints"), options_.hints);
        })) {
      fact("hints", options_.hints);
    }
    if (options_.strategy.empty() || options_.strategy == kSearch) {
      fact("strategy", options_.resume.empty() || options_.strategy == kSearch
                           ? "searched for when the run starts"
                           : "the checkpoint's where it fits, else searched for");
      return;
    }
    MemoryPlan plan;
    const bool fits = alone([&] {
      check_strategy_choice(options_.strategy);
      const Strategy strategy = choose_strategy(options_.strategy, decks_.deck, graph, *mesh_,
                                                costs_of(decks_.deck, *mesh_, std::nullopt));
      plan = largest_plan(lower(graph, strategy, lowering_options(decks_.deck)));
      if (memory_ && plan.bytes > *memory_) {
        fail(ExitCode::out_of_memory, "the plan of strategy {} needs {}, the device has {}",
             options_.strategy, format_bytes(plan.bytes), format_bytes(*memory_));
      }
    });
    if (fits) {
      fact("strategy", fmt::format("{}, {} a rank", options_.strategy, format_bytes(plan.bytes)));
    }
  }

  // Checks the strategy and the hints as far as possible without a graph.
  void inspect_names() {
    alone([&] { check_strategy_choice(options_.strategy); });
    alone([&] {
      if (!options_.hints.empty()) {
        read_strategy_file(options_.hints, "hints");
      }
    });
  }

  // Runs on rank 0. Only opens files that `train` reads in full.
  void inspect_resume() {
    try {
      std::string path = options_.resume;
      if (path == "auto") {
        const std::string folder = checkpoint_folder(decks_.deck, options_.out);
        const std::vector<FoundCheckpoint> all =
            checkpoints_of(folder, options_.out.empty() ? "" : run_name(folder, options_.out));
        if (all.empty()) {
          fact("resume", "no checkpoint in " + folder + ": the run would start with step 1");
          return;
        }
        path = all.front().path;
      }
      fact("resume", fmt::format("{}, step {}", path, CheckpointFile(path).state().step));
    } catch (const Error& error) {
      found_.findings.emplace_back(error.what());
    }
  }

  void inspect_outputs() {
    if (world().rank() != 0) {
      return;
    }
    std::vector<NamedFile> outputs;
    if (!options_.resume.empty()) {
      inspect_resume();
    }
    if (!options_.out.empty()) {
      outputs.push_back(
          {"--out", options_.resume.empty() ? options_.out : next_timing_file(options_.out)});
    } else if (!options_.deck.empty()) {
      outputs.push_back({"--out", "out/" + fs::path(options_.deck).stem().string() + "-TIME.h5"});
    }
    if (!options_.dump_gradients.empty()) {
      outputs.push_back({"--dump-gradients", options_.dump_gradients});
    }
    std::vector<NamedFile> others =
        files_read(options_.deck, options_.cluster, decks_.deck, options_.strategy, options_.hints);
    for (const NamedFile& output : outputs) {
      try {
        check_outputs({output}, others, options_.overwrite);
        check_writable(output.path);
        fact(output.name.substr(2), output.path);
      } catch (const Error& error) {
        found_.findings.emplace_back(error.what());
      }
      others.push_back(output);
    }
  }

  const TrainOptions& options_;
  MpiSession& mpi_;
  RunCheckup found_;
  Decks decks_;
  bool read_ = false;
  std::optional<Mesh> mesh_;
  std::optional<int64_t> memory_;  // the least of any rank
  bool with_graph_ = false;        // strategy and hints were checked with the graph
};

}  // namespace

RunCheckup check_run(const TrainOptions& options, MpiSession& mpi) {
  return Inspection(options, mpi).run();
}

}  // namespace hidup
