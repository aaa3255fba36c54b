#include <fmt/core.h>

#include "commands.h"
#include "core/check.h"
#include "core/units.h"
#include "deck/deck.h"
#include "models/transformer.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/named.h"
#include "train/setup.h"

namespace hidup {

int validate(const ValidateOptions& options) {
  if (options.keys) {
    fmt::print("{}", reference_markdown());
    return 0;
  }
  if (options.deck.empty()) {
    fail(ExitCode::usage, "validate needs a model deck (or --keys)");
  }
  const DeckSource model = read_deck_file(options.deck);
  const DeckSource cluster =
      options.cluster.empty() ? DeckSource{} : read_deck_file(options.cluster);
  const Deck deck =
      parse_decks(&model, options.cluster.empty() ? nullptr : &cluster, options.overrides);
  const int64_t ranks = options.ranks.value_or(1);
  if (ranks < 1) {
    fail(ExitCode::usage, "--ranks {}: expected a number from 1", ranks);
  }
  const Mesh mesh = mesh_of(deck, check_ranks(deck, ranks));

  const Dataset data = open_data(deck);
  const Graph graph = build_model(deck, data.vocab);
  const Program program = lower(graph, named_strategy("dp", graph, mesh), lowering_options(deck));
  const MemoryPlan plan = plan_memory(program, 0);
  verify(program, plan);
  fmt::print("{}: valid\n", options.deck);
  if (!options.cluster.empty()) {
    fmt::print("{}: valid\n", options.cluster);
  }
  fmt::print("data    {}\n", data.description);
  fmt::print("model   {}, {} parameters, vocabulary {}\n", graph.name(),
             format_count(graph.parameter_count()), format_count(data.vocab));
  fmt::print("memory  {} ({} rank(s))\n", describe(plan), ranks);
  return 0;
}

}  // namespace hidup
