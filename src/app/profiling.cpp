#include "app/profiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "app/inputs.h"
#include "app/launch.h"
#include "app/plan.h"
#include "app/planning.h"
#include "comm/clock.h"
#include "comm/collective.h"
#include "core/check.h"
#include "core/median.h"
#include "core/numbered.h"
#include "core/text.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/batch.h"
#include "kernels/arithmetic.h"
#include "kernels/library.h"
#include "kernels/products.h"
#include "program/memory.h"
#include "runtime/executor.h"
#include "runtime/profiler.h"
#include "runtime/rates.h"
#include "search/named/named_strategies.h"
#include "train/inputs.h"
#include "train/trainer.h"

namespace hidup {
namespace {

struct Case {
  std::string strategy;  // a name, or "replicate": every rank computes everything
  int microbatches = 1;
};

std::vector<Case> cases_of(ProfileEffort effort, const Graph& graph, const Mesh& mesh) {
  const bool one_rank = ranks_of(mesh) == 1;
  const bool splits = batch_obstacle(graph).empty();
  if (effort == ProfileEffort::brief) {
    std::vector<Case> cases = {{"dp", 1}};
    if (splits) {
      cases.push_back({"dp", 2});
    }
    if (!one_rank) {
      for (const char* name : {"megatron", "ep-deepspeed", "fsdp"}) {
        cases.push_back({name, splits ? 2 : 1});
      }
    }
    return cases;
  }
  std::vector<Case> cases;
  for (const int microbatches : {1, 2, 4}) {
    if (microbatches > 1 && !splits) {
      break;
    }
    if (one_rank) {
      cases.push_back({"dp", microbatches});
      continue;
    }
    cases.push_back({"replicate", microbatches});
    for (const std::string_view name : plain_names(graph, mesh)) {
      cases.push_back({std::string(name), microbatches});
    }
  }
  return cases;
}

Strategy strategy_of(const Case& which, const Graph& graph, const Mesh& mesh) {
  Strategy strategy =
      named_strategy(which.strategy == "replicate" ? "dp" : which.strategy, graph, mesh);
  if (which.strategy == "replicate") {
    for (OpId op = 0; op < static_cast<OpId>(strategy.ops.size()); ++op) {
      strategy.ops[static_cast<size_t>(op)].rules.assign(mesh.size(), replicate_rule(graph, op));
    }
  }
  strategy.microbatches = which.microbatches;
  return strategy;
}

class Measurement {
 public:
  Measurement(const Inputs& inputs, Machine& machine, ProfileEffort effort)
      : inputs_(inputs), machine_(machine), thorough_(effort == ProfileEffort::thorough) {}

  Profile run(const std::vector<Case>& cases) {
    Profile profile{.key = profile_key(inputs_, machine_), .model = inputs_.graph.name()};
    std::optional<kernels::TimeAlgorithms> algorithms;
    if (inputs_.deck().cluster->algorithms == "timed") {
      algorithms.emplace();
    }
    const double began = monotonic_seconds();
    for (const Case& which : cases) {
      time_case(which);
      if (!thorough_ && agreed(monotonic_seconds() - began) > kBriefSeconds) {
        break;
      }
    }
    repeat_programs();
    profile.operations = operations_.times();
    take_slowest(machine_.world, profile.key.classes, profile.operations);
    if (profile.operations.empty()) {
      throw CollectiveError(ExitCode::out_of_memory, too_large_);
    }
    if (algorithms) {
      profile.algorithms = fastest_algorithms(machine_.world, algorithms->times());
    }
    measure_rates(profile);
    profile.launch_s = median(gaps_.launch_s);
    profile.signal_s = median(gaps_.signal_s);
    profile.overhead_s = median(overheads_);
    const ComputeLoad load =
        all_gather_value(machine_.world, heaviest_load(profile.operations)).front();
    profile.collectives =
        time_collectives(*machine_.device, *machine_.communication.groups, inputs_.mesh,
                         machine_.world, machine_.threads, load, limits());
    if (thorough_) {
      profile.shared = time_sharing(*machine_.device, *machine_.communication.groups, inputs_.mesh,
                                    machine_.world, profile.collectives, kLargeMessageSeconds);
    }
    return profile;
  }

 private:
  static constexpr double kBriefSeconds = 10.0;
  // Machines change pace from second to second, so samples of an operation are spread over time to
  // compare with other sizes. Over slow links the programs' messages would take most of the time.
  static constexpr int kRounds = 5;
  static constexpr int kFirstSteps = 3;           // of a program in the first round, enough alone
  static constexpr int kMoreSteps = 2;            // in each later round
  static constexpr double kRoundsSeconds = 15.0;  // for all later rounds
  static constexpr double kOverlappedSeconds = 10.0;   // for the steps of time_overlapped()
  static constexpr double kLargeMessageSeconds = 0.1;  // for some tens of messages per axis

  // Leaves the profile without rates where the free memory does not suffice.
  void measure_rates(Profile& profile) const {
    DeviceRates mine;
    try {
      mine = measure_own_rates(*machine_.device, machine_.world, machine_.threads,
                               {DType::f32, element_type(inputs_.deck().model->precision)});
    } catch (const CollectiveError& error) {
      if (error.code() != ExitCode::out_of_memory) {
        throw;
      }
      return;
    }
    profile.rates = slowest_rates(machine_.world, mine, [](int64_t) { return true; });
    const std::vector<int64_t>& classes = profile.key.classes;
    const int64_t count = classes.empty() ? 0 : std::ranges::max(classes) + 1;
    for (int64_t number = 0; number < count; ++number) {
      profile.rates_by_class.push_back(slowest_rates(machine_.world, mine, [&](int64_t rank) {
        return classes.at(static_cast<size_t>(rank)) == number;
      }));
    }
  }

  double agreed(double mine) const { return all_gather_value(machine_.world, mine)[0]; }
  bool any(bool mine) const {
    return std::ranges::count(all_gather_value(machine_.world, static_cast<char>(mine)), 1) > 0;
  }

  MessageLimits limits() const {
    constexpr double kMebibyte = 1 << 20;
    return {.bytes = std::clamp(largest_message_, kMebibyte, (thorough_ ? 64 : 16) * kMebibyte),
            .seconds = thorough_ ? 0.5 : 0.05,
            .repetitions = thorough_ ? 9 : 5,
            .all_algorithms = thorough_};
  }

  // Also runs without fused products: the simulation needs the times of fused ones, but the search
  // costs every operation by itself.
  void time_case(const Case& which) {
    time_program(which, true);
    time_program(which, false);
  }

  void time_program(const Case& which, bool fuse) {
    const Program program = make(which, fuse);
    for (const Instruction& instruction : program.instructions) {
      if (!collective_of(instruction.opcode).empty()) {
        largest_message_ = std::max(largest_message_, instruction.bytes);
      }
    }
    const bool is_new = any(operations_.lacks_any_of(program, machine_.world.rank()));
    if (is_new && run_program(program, kFirstSteps, fuse)) {
      timed_.emplace_back(which, fuse);
    }
  }

  void repeat_programs() {
    const double began = monotonic_seconds();
    for (int round = 1; thorough_ && round < kRounds; ++round) {
      for (const auto& [which, fuse] : timed_) {
        if (agreed(monotonic_seconds() - began) > kRoundsSeconds) {
          return;
        }
        run_program(make(which, fuse), kMoreSteps, false);
      }
    }
  }

  Program make(const Case& which, bool fuse) const {
    return make_program(inputs_.graph, strategy_of(which, inputs_.graph, inputs_.mesh),
                        inputs_.deck(), machine_.world, fuse);
  }

  // Returns false where the program does not fit in memory and did not run.
  bool run_program(const Program& program, int steps, bool overlapped) {
    const int64_t rank = machine_.world.rank();
    std::optional<Store> store;
    std::optional<Executor> executor;
    try {
      collectively(machine_.world, [&] {
        const MemoryPlan plan = plan_memory(program, rank);
        const PlannedProgram planned{program, plan};
        store.emplace(std::span(&planned, 1), *machine_.device, *machine_.communication.groups,
                      machine_.threads);
        executor.emplace(program, plan, *store, rank, inputs_.deck().train->seed);
        executor->initialize_parameters();
      });
    } catch (const CollectiveError& error) {
      if (error.code() != ExitCode::out_of_memory) {
        throw;
      }
      too_large_ = error.what();
      return false;  // such a strategy cannot run anyway
    }
    store->register_arena();
    StepInputs inputs;
    fill_inputs(program, rank, inputs_.deck(), *inputs_.data.batches, 1, inputs);
    // Uses the order of training, in which steps of single kernel launches wait for the host.
    const bool recorded = execution_order(inputs_.deck()) == Executor::Order::recorded;
    operations_.run(*executor, rank, inputs, steps,
                    recorded ? Executor::Order::recorded_in_turn : Executor::Order::in_turn);
    if (overlapped && agreed(overlapped_s_) < kOverlappedSeconds) {
      const double began = monotonic_seconds();
      time_overlapped(*executor);
      overlapped_s_ += monotonic_seconds() - began;
    }
    return true;
  }

  // Measures the gaps between the instructions of a step and between steps.
  void time_overlapped(Executor& executor) {
    Deck deck = inputs_.deck();
    deck.train->steps = thorough_ ? 6 : 4;
    deck.train->timeline_every = 0;
    deck.cluster->timed_every = 1;
    const auto look = [&](const Iteration& iteration) {
      if (iteration.step > 1) {
        gaps_.add(executor.program(), executor.steps(), executor.times());
        double first = executor.times()[0].start_s;
        double last = first;
        for (const Interval& time : executor.times()) {
          first = std::min(first, time.start_s);
          last = std::max(last, time.end_s);
        }
        overheads_.push_back(iteration.wall_s - (last - first));
      }
    };
    Trainer trainer(deck, *inputs_.data.batches, executor, machine_.world, 0.0, {.on_step = look});
    trainer.run();
  }

  const Inputs& inputs_;
  Machine& machine_;
  bool thorough_;
  OperationTimer operations_;
  std::vector<std::pair<Case, bool>> timed_;  // the programs that ran, and whether they are fused
  Gaps gaps_;
  std::vector<double> overheads_;
  double overlapped_s_ = 0.0;  // time of the steps for both
  double largest_message_ = 0.0;
  std::string too_large_;  // of the last strategy that did not fit; on one rank
};

}  // namespace

// Returns the device with everything that affects the times of its instructions.
std::string device_of(const Inputs& inputs, const Machine& machine) {
  const ClusterDeck& cluster = *inputs.deck().cluster;
  std::string text = fmt::format("{}, {} thread(s)", machine.device->name(), machine.threads);
  if (const std::string arithmetic = kernels::describe_arithmetic(); !arithmetic.empty()) {
    text += ", " + arithmetic;
  }
  if (cluster.device_graph == "off") {
    text += ", no graphs";
  }
  if (cluster.algorithms == "timed") {
    text += ", timed algorithms";
  }
  if (cluster.reserved_multiprocessors > 0) {
    text += fmt::format(", {} multiprocessor(s) for messages", cluster.reserved_multiprocessors);
  }
  return text;
}

ProfileKey profile_key(const Inputs& inputs, const Machine& machine) {
  ProfileKey key{.build = version_text(),
                 .device = text_of_ranks(machine.world, device_of(inputs, machine)),
                 .mesh = inputs.mesh};
  std::vector<std::string> libraries = {mpi_library_version(), kernels::matmul_library_version()};
  for (const std::string& library : machine.communication.libraries()) {
    libraries.push_back(library);
  }
  key.libraries = lines_of_ranks(machine.world, libraries);
  key.hosts = numbered(gather_texts(machine.world, machine.host));
  const int64_t of_deck = alike_devices(*inputs.deck().cluster, machine.world.size())
                              .at(static_cast<size_t>(machine.world.rank()));
  const std::string device = fmt::format("{}: {}", of_deck, device_of(inputs, machine));
  const auto classes = numbered(all_gather_value(machine.world, hash_of(device)));
  if (std::ranges::max(classes) > 0) {
    key.classes = classes;
  }
  return key;
}

Profile measure_profile(const Inputs& inputs, Machine& machine, ProfileEffort effort) {
  return Measurement(inputs, machine, effort).run(cases_of(effort, inputs.graph, inputs.mesh));
}

}  // namespace hidup
