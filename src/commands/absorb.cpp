// hidup profile --absorb: merges a run's measured times into a profile.
#include "app/absorb.h"

#include <fmt/format.h>

#include "app/costs.h"
#include "app/planning.h"
#include "commands/commands.h"
#include "core/check.h"
#include "core/new_file.h"
#include "core/results.h"
#include "deck/cluster_deck.h"
#include "io/output_path.h"
#include "program/lower.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

// Throws Error(usage) if cluster.profile is no file, or belongs to other ranks than the run's.
Profile profile_for(const TimingRecord& record, const PlanningInput& input) {
  const std::string& file = input.deck.cluster->profile;
  if (file.empty() || file == "auto") {
    fail_at(input.deck, "cluster.profile",
            "cluster.profile: --absorb adds to a profile, of `hidup profile` or kept by `train`: "
            "name its file");
  }
  Profile profile = parse_profile(read_profile_file(file), file);
  const std::string mismatch =
      profile_mismatch(profile.key, key_of_run(record, input.mesh, profile.key));
  if (!mismatch.empty()) {
    fail_at(input.deck, "cluster.profile",
            fmt::format("cluster.profile: {} does not fit {}: {}", file, record.path, mismatch));
  }
  return profile;
}

// Throws Error(usage) if the strategy belongs to another graph or mesh.
Program program_of(const TimingRecord& record, const PlanningInput& input) {
  Strategy strategy;
  try {
    strategy = parse_strategy(input.graph, input.mesh, record.header.strategy.text,
                              record.path + ", /strategy/text");
  } catch (const Error& error) {
    fail(error.code(), "{}: its strategy is not for these decks: {}", record.path, error.what());
  }
  return lower(input.graph, strategy, lowering_options(input.deck));
}

}  // namespace

int absorb_run(const ProfileOptions& options) {
  const TimingRecord record = read_timing_file(options.absorb);
  if (record.header.emulation) {
    fail(ExitCode::file,
         "{}: its times are emulated, so that they say nothing that the run's costs did not say",
         record.path);
  }
  const PlanningInput input = read_planning_input(options.deck, options.cluster, options.overrides,
                                                  record.header.run.world_size);
  std::vector<NamedFile> inputs = files_read(options.deck, options.cluster, input.deck);
  inputs.push_back({"--absorb", options.absorb});
  prepare_outputs({{"--out", options.out}}, inputs, options.overwrite);
  Profile profile = profile_for(record, input);
  const Absorbed absorbed = absorb(record, program_of(record, input), profile);
  write_text_file(options.out, print_profile(profile), options.overwrite);
  results::print("operations   {} taken from the run, {} in all\n", absorbed.operations,
                 profile.operations.size());
  results::print("collectives  {} sizes taken from the run\n", absorbed.messages);
  results::print("file         {}\n", options.out);
  return 0;
}

}  // namespace hidup
