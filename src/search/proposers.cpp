#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "search/proposal.h"

namespace hidup {

Proposal with_change(Proposal proposal, const char* by, const Graph& graph, const Change& change) {
  proposal.by = by;
  proposal.objective_s = 0.0;
  proposal.in_bound = false;
  for (StrategyParts::Part& part : proposal.parts.parts) {
    change(*part.graph, part.strategy);
    part.strategy.routes.clear();
    part.strategy.algorithms.clear();
  }
  proposal.make = [make = std::move(proposal.make), &graph, change] {
    Strategy strategy = make();
    change(graph, strategy);
    return strategy;
  };
  return proposal;
}

double SearchState::fastest_s() const {
  return fastest.empty() ? std::numeric_limits<double>::infinity() : fastest[0].seconds;
}

std::vector<PaceClass> SearchState::classes(size_t axis) const {
  Mesh paced = mesh;
  if (ranks.all_alike()) {
    paced[axis].paces.clear();
  }
  return pace_classes(paced, axis, options.memory_of_ranks);
}

bool SearchState::has_classes() const {
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (!classes(axis).empty()) {
      return true;
    }
  }
  return false;
}

std::span<const Proposer> proposers() {
  static constexpr std::array kProposers = {
      Proposer{"plans", propose_plans},
      Proposer{"variations", propose_variations},
      Proposer{"storages", propose_storages},
      // The lower bound excludes deferred gradients, so a small gain does not justify them.
      Proposer{"deferred gradients", propose_deferred, 0.99},
      Proposer{"names", propose_names},
      Proposer{"deferred dp", propose_deferred_dp},
      Proposer{"names per axis", propose_names_per_axis},
      Proposer{"more microbatches", propose_more_microbatches, 0.99},
      Proposer{.name = "shares", .propose = propose_shares, .for_unequal_memory = true},
      Proposer{"shares in turn", propose_shares_in_turn},
  };
  return kProposers;
}

std::span<const Proposer> last_proposers() {
  static constexpr std::array kLast = {
      Proposer{"first names", propose_first_names},
      Proposer{"least memory", propose_least_memory},
  };
  return kLast;
}

}  // namespace hidup
