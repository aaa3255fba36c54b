#include "search/axes/near_search.h"

#include <optional>
#include <utility>

namespace hidup {
namespace {

// The most searches; bert-sgmoe on 4 x 8 x 8 takes up to five.
constexpr int kMostNearSearches = 8;
// Another search follows where the time falls by this part.
constexpr double kWorthAnother = 1e-3;

}  // namespace

std::vector<FoundStrategy> search_near(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                       const BuildOptions& build, const DynamicOptions& effort,
                                       FoundStrategy start) {
  std::vector<FoundStrategy> best;
  bool gains = true;
  for (int search = 0; gains && search < kMostNearSearches && !effort.deadline.has_passed();
       ++search) {
    BuildOptions near = build;
    near.near = &start.strategy;
    const std::optional<BuiltProblem> built = try_build_problem(graph, mesh, costs, near);
    if (!built) {  // a tensor has too many layouts
      break;
    }
    std::vector<FoundStrategy> faster;
    for (const FoundPlan& found : solve(built->problem, effort).plans) {
      if (found.cost.seconds < start.objective_s) {
        faster.push_back(
            {to_strategy(graph, mesh, *built, found.plan), found.cost.seconds, "near search"});
      }
    }
    if (faster.empty()) {
      break;
    }
    gains = faster[0].objective_s < (1.0 - kWorthAnother) * start.objective_s;
    start = faster[0];
    best = std::move(faster);
  }
  return best;
}

}  // namespace hidup
