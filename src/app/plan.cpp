#include "app/plan.h"

#include <algorithm>
#include <utility>

#include "app/costs.h"
#include "app/emulation.h"
#include "app/inputs.h"
#include "app/machine.h"
#include "app/planning.h"
#include "app/run_search.h"
#include "comm/collective.h"
#include "core/check.h"
#include "core/log.h"
#include "core/units.h"
#include "cost/cost_model.h"
#include "cost/forecast.h"
#include "deck/cluster_deck.h"
#include "deck/model_deck.h"
#include "program/print.h"
#include "program/verify.h"
#include "search/memory_limit.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

LoadedStrategy search(const Deck& deck, const Graph& graph, const Mesh& mesh,
                      const MachineCosts& known, const std::string& hints) {
  check_that_a_search_fits(deck);
  if (!known.costs) {
    fail_for_missing_rate(deck, mesh,
                          "--strategy search rests on it, or on cluster.profile; or name a "
                          "strategy");
  }
  const double began = monotonic_seconds();
  SearchOptions options = search_options(deck, graph, mesh, hints);
  limit_memory(options, known.memory);
  options.baselines = false;
  SearchOutcome found = search_for(deck, graph, mesh, *known.costs, options);
  const double seconds = monotonic_seconds() - began;
  log::info("search: {} microbatch(es), {} predicted, in {}", found.step.strategy.microbatches,
            format_seconds(found.step.seconds()), format_seconds(seconds));
  return {std::move(found.step.strategy), seconds};
}

void check_agreement(const Program& program, Communicator& world) {
  const std::vector<std::string> all = gather_texts(world, print_collectives(program));
  collectively(world, [&] { verify_ranks_agree(all); });
}

// Makes the strategy on rank 0. All ranks parse the same text and check that they agree. `source`:
// of the text, for errors.
LoadedStrategy agreed(const Graph& graph, const Mesh& mesh,
                      const std::function<LoadedStrategy()>& make, const std::string& source,
                      Communicator& world) {
  LoadedStrategy loaded;
  const std::string text = text_of_first(world, [&] {
    loaded = make();
    return print_strategy(graph, loaded.strategy);
  });
  Strategy& strategy = loaded.strategy;
  collectively(world, [&] { strategy = parse_strategy(graph, mesh, text, source); });
  const std::vector<uint64_t> hashes = all_gather_value(world, strategy_hash(graph, strategy));
  collectively(world, [&] {
    check(std::ranges::count(hashes, hashes[0]) == world.size(),
          "the ranks have different strategies");
  });
  return loaded;
}

LoadedStrategy choose(const Inputs& inputs, const MachineCosts& known, const std::string& choice,
                      const std::string& hints, Communicator& world) {
  const bool trains = inputs.files.is_training();
  if (choice.empty() && inputs.files.checkpoint) {
    if (std::optional<Strategy> stored = stored_strategy(
            inputs.files.checkpoint->state().strategy, inputs.deck(), inputs.graph, inputs.mesh)) {
      return {*std::move(stored)};
    }
    log::info(
        "the checkpoint's strategy is for another {}",
        trains ? "graph or mesh: a new one is searched for" : "batch or mesh: dp takes its place");
  }
  return load_strategy(!choice.empty() ? choice
                       : trains        ? kSearch
                                       : "dp",
                       inputs.deck(), inputs.graph, inputs.mesh, known, hints, world);
}

PlannedPass planned_pass(Program program, Communicator& world,
                         const PlannedPass* sharing = nullptr) {
  PlannedPass pass{.program = std::move(program)};
  collectively(world, [&] {
    pass.memory = sharing == nullptr
                      ? plan_memory(pass.program, world.rank())
                      : plan_memory(pass.program, world.rank(),
                                    stored_values(sharing->program, sharing->memory));
    verify(pass.program, pass.memory);
  });
  return pass;
}

void add_prediction(RunPlan& plan, const Inputs& inputs, const MachineCosts& known,
                    Communicator& world) {
  const Deck& deck = inputs.deck();
  const Program& program = plan.training->program;
  if (deck.cluster->emulates()) {
    collectively(world, [&] {
      plan.durations.emplace(program, rank_costs(deck, inputs.mesh, *known.costs),
                             links_in_time(deck, inputs.mesh), paces_in_time(deck, world.size()));
    });
  }
  if (known.rates) {
    plan.floor =
        step_floor(program, world.rank(), *known.rates, element_type(deck.model->precision));
  }
  if (plan.floor) {
    plan.floor = std::ranges::max(all_gather_value(world, *plan.floor), {}, &StepFloor::seconds);
  }
  if (known.costs && world.rank() == 0) {
    plan.prediction = plan.durations
                          ? predict_emulated(program, *plan.durations)
                          : simulate(program, rank_costs(deck, inputs.mesh, *known.costs));
    annotate(plan.loaded.strategy, program, plan.training->memory, *plan.prediction);
  }
}

RunPlan plan_of(LoadedStrategy loaded, const Inputs& inputs, const MachineCosts& known,
                Communicator& world) {
  RunPlan plan{.loaded = std::move(loaded)};
  const Strategy& strategy = plan.loaded.strategy;
  if (inputs.files.is_training()) {
    plan.training = planned_pass(make_program(inputs.graph, strategy, inputs.deck(), world), world);
  }
  if (inputs.data.validation) {
    plan.forward = planned_pass(make_forward_program(inputs.graph, strategy, inputs.deck(), world),
                                world, plan.training ? &*plan.training : nullptr);
  }
  if (plan.training) {
    add_prediction(plan, inputs, known, world);
  }
  return plan;
}

}  // namespace

LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const MachineCosts& known, const std::string& hints,
                             Communicator& world) {
  const auto make = [&] {
    return choice == kSearch
               ? search(deck, graph, mesh, known, hints)
               : LoadedStrategy{choose_strategy(choice, deck, graph, mesh, known.costs)};
  };
  return agreed(graph, mesh, make, choice, world);
}

Program make_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                     Communicator& world, bool fuse) {
  LoweringOptions options = lowering_options(deck);
  options.fuse = fuse;
  Program program = lower(graph, strategy, options);
  check_agreement(program, world);
  return program;
}

Program make_forward_program(const Graph& graph, const Strategy& strategy, const Deck& deck,
                             Communicator& world) {
  Program program = lower_forward(graph, strategy, lowering_options(deck));
  check_agreement(program, world);
  return program;
}

RunPlan make_plan(const Inputs& inputs, const MachineCosts& known, const std::string& choice,
                  const std::string& hints, Communicator& world) {
  return plan_of(choose(inputs, known, choice, hints, world), inputs, known, world);
}

RunPlan make_plan(const Inputs& inputs, const MachineCosts& known,
                  const std::function<LoadedStrategy()>& make, Communicator& world) {
  return plan_of(agreed(inputs.graph, inputs.mesh, make, "the new strategy", world), inputs, known,
                 world);
}

}  // namespace hidup
