// hidup profile: how fast these ranks compute and communicate, as a file.
#include <fmt/core.h>

#include <memory>
#include <optional>

#include "app/inputs.h"
#include "app/job.h"
#include "app/machine.h"
#include "app/planning.h"
#include "app/profiling.h"
#include "comm/collective.h"
#include "commands/commands.h"
#include "core/log.h"
#include "core/new_file.h"
#include "core/results.h"
#include "core/units.h"
#include "deck/cluster_deck.h"
#include "io/output_path.h"
#include "train/dataset.h"

namespace hidup {
namespace {

void print_summary(const Profile& profile, const std::string& file) {
  results::print("operations   {} timed\n", profile.operations.size());
  for (const CollectiveTimes& times : profile.collectives) {
    if (times.opcode != Opcode::slice) {
      results::print("{:<14} {:>10} latency, {:>8.2f} MB/s along {}{}\n", name_of(times.opcode),
                     format_seconds(times.latency_s), times.bandwidth / 1e6,
                     profile.key.mesh[times.axis].name,
                     times.algorithm == CollectiveAlgorithm::automatic
                         ? ""
                         : fmt::format(" by {}", name_of(times.algorithm)));
    }
  }
  for (const auto& [axis, times] : profile.shared) {
    results::print(
        "shared       {:.2f} x: so much longer messages along {} take with all groups at "
        "once than with one alone\n",
        times, profile.key.mesh[axis].name);
  }
  results::print("file         {}\n", file);
}

}  // namespace

int profile(const ProfileOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) {
    Communicator& world = mpi.world();
    const Decks decks = load_decks(options.deck, options.cluster, options.overrides, world);
    const Deck& deck = decks.deck;
    mpi.set_timeouts(deck.cluster->heartbeat_timeout_s, deck.cluster->collective_timeout_s);
    Mesh mesh;
    collectively(world, [&] {
      mesh = mesh_of(deck, check_ranks(deck, world.size()));
      if (deck.cluster->emulates()) {
        fail_at(deck, "cluster.emulate",
                "cluster.emulate is on: an emulated cluster cannot be measured");
      }
      if (world.rank() == 0) {
        Deck read = deck;
        read.cluster->profile = "";  // is measured, not read
        prepare_outputs({{"--out", options.out}}, files_read(options.deck, options.cluster, read),
                        options.overwrite);
      }
    });
    const Dataset data = load_data(deck, world);
    std::optional<Graph> graph;
    collectively(world, [&] { graph.emplace(make_graph(deck, decks.graph, data.vocab)); });
    const int threads = compute_threads(deck, world, mpi.host());
    const std::unique_ptr<Device> device = open_device(deck, mpi);
    Communication communication;
    open_communication(deck, mesh, mpi, *device, communication);
    log::info("profile: {} rank(s) with {} thread(s) each", world.size(), threads);
    const Profile profile = measure_profile(
        {deck, *graph, *data.batches, mesh, world, mpi.host(), communication, *device, threads},
        ProfileEffort::thorough);
    collectively(world, [&] {
      if (world.rank() == 0) {
        write_text_file(options.out, print_profile(profile), options.overwrite);
        print_summary(profile, options.out);
      }
    });
    return ExitCode::done;
  });
}

}  // namespace hidup
