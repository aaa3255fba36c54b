#include "search/choose_ways.h"

#include <algorithm>
#include <utility>

#include "search/by_axes.h"
#include "search/problem/reshard_costs.h"

namespace hidup {
namespace {

class RouteChooser {
 public:
  explicit RouteChooser(const ReshardCosts& costs, const Mesh& mesh) : costs_(costs), mesh_(mesh) {}

  std::vector<RouteChoice> run(std::vector<RouteDemand> demands) {
    std::ranges::stable_sort(demands, {}, &RouteDemand::bytes);
    for (const RouteDemand& demand : demands) {
      choose(demand);
    }
    return std::move(choices_);
  }

 private:
  void choose(const RouteDemand& demand) {
    const Layout& from = demand.value.layout;
    const auto last = std::ranges::find_if(choices_.rbegin(), choices_.rend(), [&](const auto& c) {
      return c.from == from && c.to == demand.to;
    });
    const bool known = last != choices_.rend();
    if (known && last->bytes == demand.bytes) {
      return;
    }
    const std::vector<Route> routes = reshard_routes(from, demand.to, mesh_);
    if (routes.size() == 1) {
      return;
    }
    const Route& best = fastest(routes, demand);
    if (best != (known ? last->steps : routes[0])) {
      choices_.push_back({from, demand.to, demand.bytes, best});
    }
  }

  // The first of those that take least.
  const Route& fastest(const std::vector<Route>& routes, const RouteDemand& demand) const {
    const Value value = demand.several ? grown_to(demand.value, demand.bytes) : demand.value;
    return *std::ranges::min_element(routes, {}, [&](const Route& route) {
      const Reshard cost = costs_.along(route, value, demand.several);
      return cost.comm_s + cost.compute_s;
    });
  }

  const ReshardCosts& costs_;
  const Mesh& mesh_;
  std::vector<RouteChoice> choices_;
};

}  // namespace

Strategy with_ways(const Graph& graph, Strategy strategy, const LoweringOptions& options,
                   const CostModel& costs) {
  if (strategy.algorithms.empty()) {
    strategy.algorithms = costs.algorithms();
  }
  if (axes_in_use(strategy.mesh) > 1 && strategy.routes.empty()) {
    const ReshardCosts prices(strategy.mesh, costs);
    const Mesh mesh = with_equal_shares(strategy.mesh);  // which the demands' layouts name
    strategy.routes = RouteChooser(prices, mesh).run(route_demands(graph, strategy, options));
  }
  return strategy;
}

}  // namespace hidup
