// Routes from one layout to another on a mesh of several axes, and the choice among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sharding/reshard.h"

namespace hidup {

using Route = std::vector<ReshardStep>;

// Returns the route of reshard_steps() first, then others of at most four steps, which change one
// axis after the other in any order, or several axes at once by one collective. Where a layout has
// unequal shares, the others are only single all-to-alls along several axes.
std::vector<Route> reshard_routes(const Layout& from, const Layout& to, const Mesh& mesh);

// Returns an axis and the inner axes that change with it: "node+gpu", or "node*gpu" if flat.
template <typename Axes>
std::string axes_text(const Mesh& mesh, size_t axis, const Axes& inner, bool flat) {
  std::string text = mesh[axis].name;
  for (const auto each : inner) {
    text += (flat ? "*" : "+") + mesh[static_cast<size_t>(each)].name;
  }
  return text;
}

// Returns the steps with their axes, which identify a route between two layouts: "all_reduce
// node+gpu, all_gather gpu".
std::string to_string(const Route& route, const Mesh& mesh);

// Part of a strategy: the route of values from this many bytes on, over all ranks and microbatches.
struct RouteChoice {
  Layout from;
  Layout to;
  double bytes = 0.0;
  Route steps;

  bool operator==(const RouteChoice&) const = default;
};

// Returns the chosen route for this many bytes, or that of reshard_steps() without a choice.
Route chosen_route(const std::vector<RouteChoice>& choices, const Layout& from, const Layout& to,
                   double bytes, const Mesh& mesh);

}  // namespace hidup
