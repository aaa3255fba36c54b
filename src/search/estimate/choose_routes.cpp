#include "search/estimate/choose_routes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hidup {
namespace {

// Chooses and records the fastest route of every reshard.
class FastestRoutes {
 public:
  FastestRoutes(const ReshardCosts& costs, const Mesh& mesh) : costs_(costs), mesh_(mesh) {}

  const Route& choose(const RouteDemand& demand) {
    const Layout& from = demand.value.layout;
    const auto known = std::ranges::find_if(chosen_, [&](const RouteChoice& choice) {
      return choice.bytes == demand.bytes && choice.from == from && choice.to == demand.to;
    });
    if (known != chosen_.end()) {
      return known->steps;
    }
    return chosen_.emplace_back(RouteChoice{from, demand.to, demand.bytes, fastest(demand)}).steps;
  }

  // Returns the Strategy::routes for which chosen_route() gives the same routes.
  std::vector<RouteChoice> routes() && {
    std::vector<RouteChoice> routes;
    std::ranges::stable_sort(chosen_, {}, &RouteChoice::bytes);
    for (RouteChoice& choice : chosen_) {
      if (chosen_route(routes, choice.from, choice.to, choice.bytes, mesh_) != choice.steps) {
        routes.push_back(std::move(choice));
      }
    }
    return routes;
  }

 private:
  // Returns the first of the fastest routes.
  Route fastest(const RouteDemand& demand) const {
    std::vector<Route> routes = reshard_routes(demand.value.layout, demand.to, mesh_);
    if (routes.size() == 1) {
      return std::move(routes[0]);
    }
    const Value value = demand.how.several ? grown_to(demand.value, demand.bytes) : demand.value;
    return *std::ranges::min_element(routes, {}, [&](const Route& route) {
      const Reshard cost = costs_.along(route, value, demand.how);
      return cost.comm_s + cost.compute_s;
    });
  }

  const ReshardCosts& costs_;
  const Mesh mesh_;
  std::vector<RouteChoice> chosen_;
};

}  // namespace

Program lower_by_costs(const Graph& graph, Strategy& strategy, const LoweringOptions& options,
                       const ReshardCosts& costs) {
  if (strategy.algorithms.empty()) {
    strategy.algorithms = costs.model().algorithms();
  }
  if (axes_in_use(strategy.mesh) <= 1 || !strategy.routes.empty()) {
    return lower(graph, strategy, options);
  }
  FastestRoutes fastest(costs, with_equal_shares(strategy.mesh));
  Program program = lower(graph, strategy, options,
                          [&](const RouteDemand& demand) { return fastest.choose(demand); });
  strategy.routes = std::move(fastest).routes();
  return program;
}

Strategy with_routes(const Graph& graph, Strategy strategy, const LoweringOptions& options,
                     const CostModel& costs) {
  lower_by_costs(graph, strategy, options, ReshardCosts(strategy.mesh, costs));
  return strategy;
}

}  // namespace hidup
