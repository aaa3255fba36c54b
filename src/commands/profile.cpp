// hidup profile: measures these ranks' compute and communication rates and writes them to a file.
#include <fmt/core.h>

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
        "shared       messages along {} take {:.2f} times as long when all groups send at once\n",
        profile.key.mesh[axis].name, times);
  }
  results::print("file         {}\n", file);
}

// Runs on every rank; rank 0 also prepares the output file.
void check_deck(const ProfileOptions& options, const Deck& deck, bool first) {
  if (deck.cluster->emulates()) {
    fail_at(deck, "cluster.emulate",
            "cluster.emulate is on: an emulated cluster cannot be measured");
  }
  if (first) {
    Deck read = deck;
    read.cluster->profile = "";  // it is measured, not read
    prepare_outputs({{"--out", options.out}}, files_read(options.deck, options.cluster, read),
                    options.overwrite);
  }
}

ExitCode run(const ProfileOptions& options, MpiSession& mpi) {
  const bool first = mpi.world().rank() == 0;
  const Inputs inputs =
      read_inputs({.deck = options.deck,
                   .cluster = options.cluster,
                   .overrides = options.overrides,
                   .check = [&](const Deck& deck) { check_deck(options, deck, first); }},
                  mpi);
  Machine machine = open_machine(inputs, mpi);
  log::info("profile: {} rank(s) with {} thread(s) each", mpi.world().size(), machine.threads);
  const Profile profile = measure_profile(inputs, machine, ProfileEffort::thorough);
  collectively(mpi.world(), [&] {
    if (first) {
      write_text_file(options.out, print_profile(profile), options.overwrite);
      print_summary(profile, options.out);
    }
  });
  return ExitCode::done;
}

}  // namespace

int profile(const ProfileOptions& options, int* argc, char*** argv) {
  return run_job(argc, argv, [&](MpiSession& mpi) { return run(options, mpi); });
}

}  // namespace hidup
