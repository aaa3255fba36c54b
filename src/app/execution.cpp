#include "app/execution.h"

#include <vector>

#include "comm/clock.h"
#include "comm/collective.h"
#include "deck/cluster_deck.h"
#include "deck/train_deck.h"
#include "train/persistent.h"

namespace hidup {
namespace {

// Makes an emulator with the plan's durations.
std::unique_ptr<Emulator> make_emulator(const Deck& deck, const RunPlan& plan, Machine& machine,
                                        double clock_start, Nanoseconds begin) {
  const Durations& durations = *plan.durations;
  const auto end_of = [&durations, rank = machine.world.rank()](int instruction,
                                                                Nanoseconds start) {
    return durations.end_of(instruction, rank, start);
  };
  return std::make_unique<Emulator>(
      plan.training->program, machine.world,
      EmulatedTimes{.end_of = end_of,
                    .launch = durations.launch(),
                    .signal = durations.signal(),
                    .overhead = durations.overhead()},
      EmulatorOptions{.dilation = deck.cluster->emulate_dilation,
                      .clock_start = clock_start,
                      .begin = begin,
                      .failed = [&device = *machine.device] { return device.failed(); }});
}

}  // namespace

Execution::Execution(const Inputs& inputs, Machine& machine, const RunPlan& plan,
                     const Handover* before) {
  const Deck& deck = inputs.deck();
  Communicator& world = machine.world;
  std::vector<PlannedProgram> programs;
  for (const std::optional<PlannedPass>* pass : {&plan.training, &plan.forward}) {
    if (*pass) {
      programs.push_back((*pass)->planned());
      machine.communication.groups->add_groups_of((*pass)->program);
    }
  }
  if (plan.training) {
    start_ = before != nullptr ? before->start : run_start(world, machine.host);
  }
  if (plan.durations) {
    emulator_ = make_emulator(deck, plan, machine, start_, before != nullptr ? before->begin : 0);
  }
  const auto open = [&](std::optional<Executor>& executor, const PlannedPass& pass,
                        Emulator* emulator) {
    executor.emplace(pass.program, pass.memory, *store_, world.rank(), deck.train->seed, emulator);
  };
  collectively(world, [&] {
    store_.emplace(programs, *machine.device, *machine.communication.groups, machine.threads);
    if (plan.training) {
      open(training_, *plan.training, emulator_.get());
    }
    if (plan.forward) {
      open(forward_, *plan.forward, nullptr);
      evaluator_.emplace(deck, *inputs.data.validation, inputs.data.validation_sequences, *forward_,
                         world);
    }
  });
  store_->register_arena();
  load_parameters(inputs, world, before);
}

Handover Execution::hand_over(const Communicator& world) {
  return {.start = start_,
          .begin = emulator_ ? emulator_->step().next : 0,
          .state = HeldState(executor(), world)};
}

void Execution::load_parameters(const Inputs& inputs, Communicator& world, const Handover* before) {
  if (before != nullptr) {
    before->state.give(world, executor());
  } else if (inputs.files.checkpoint) {
    restore(world, executor(), *inputs.files.checkpoint);
  } else if (inputs.initial) {
    collectively(world, [&] { inputs.initial->load(executor(), world.rank()); });
  } else {
    executor().initialize_parameters();
  }
}

}  // namespace hidup
