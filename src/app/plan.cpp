#include "app/plan.h"

#include <algorithm>

#include "app/costs.h"
#include "app/planning.h"
#include "comm/collective.h"
#include "core/check.h"
#include "core/log.h"
#include "core/units.h"
#include "cost/cost_model.h"
#include "program/print.h"
#include "program/verify.h"
#include "sharding/read_strategy.h"

namespace hidup {

namespace {

LoadedStrategy search(const Deck& deck, const Graph& graph, const Mesh& mesh,
                      const SearchBasis& basis) {
  if (!basis.costs) {
    fail_for_missing_rate(deck, mesh,
                          "--strategy search rests on it, or on cluster.profile; or name a "
                          "strategy");
  }
  const double began = monotonic_seconds();
  SearchOptions options = search_options(deck, graph, mesh, basis.hints);
  options.memory_limit = basis.memory;
  options.baselines = false;
  SearchOutcome found = search_for(graph, mesh, CostModel(*basis.costs),
                                   rank_costs(deck, mesh, *basis.costs), options);
  const double seconds = monotonic_seconds() - began;
  log::info("search: {} microbatch(es), {} predicted, in {}", found.step.strategy.microbatches,
            format_seconds(found.step.seconds()), format_seconds(seconds));
  return {std::move(found.step.strategy), seconds};
}

}  // namespace

LoadedStrategy load_strategy(const std::string& choice, const Deck& deck, const Graph& graph,
                             const Mesh& mesh, const SearchBasis& basis, Communicator& world) {
  LoadedStrategy loaded;
  std::string text;
  collectively(world, [&] {
    if (world.rank() == 0) {
      loaded = choice == kSearch
                   ? search(deck, graph, mesh, basis)
                   : LoadedStrategy{choose_strategy(choice, deck, graph, mesh, basis.costs)};
      text = print_strategy(graph, loaded.strategy);
    }
  });
  text = world.broadcast(text);
  Strategy& strategy = loaded.strategy;
  collectively(world, [&] { strategy = parse_strategy(graph, mesh, text, choice); });
  const std::vector<uint64_t> hashes = all_gather_value(world, strategy_hash(graph, strategy));
  collectively(world, [&] {
    check(std::ranges::count(hashes, hashes[0]) == world.size(),
          "the ranks have different strategies");
  });
  return loaded;
}

namespace {

void check_agreement(const Program& program, Communicator& world) {
  const std::vector<std::string> all = gather_texts(world, print_collectives(program));
  collectively(world, [&] { verify_ranks_agree(all); });
}

}  // namespace

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

}  // namespace hidup
