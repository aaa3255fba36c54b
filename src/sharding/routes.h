// The ways from one layout to another where a mesh has several axes, and which ones are taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sharding/reshard.h"

namespace hidup {

using Route = std::vector<ReshardStep>;

// The way of reshard_steps() first; then others of at most four steps, that change one axis after
// the other in any order, or several axes at once by one collective. Where one of the layouts has
// unequal shares, these are only the single all-to-alls along several axes.
std::vector<Route> reshard_routes(const Layout& from, const Layout& to, const Mesh& mesh);

// "node+gpu": an axis, and those inside of it that go with it; "node*gpu" of a flat collective.
template <typename Axes>
std::string axes_text(const Mesh& mesh, size_t axis, const Axes& inner, bool flat) {
  std::string text = mesh[axis].name;
  for (const auto each : inner) {
    text += (flat ? "*" : "+") + mesh[static_cast<size_t>(each)].name;
  }
  return text;
}

// "all_reduce node+gpu, all_gather gpu": its steps, with the axes of each; the route between two
// layouts is known by it.
std::string to_string(const Route& route, const Mesh& mesh);

// Part of a strategy: which way values go that have at least so many bytes together, those of all
// ranks and microbatches.
struct RouteChoice {
  Layout from;
  Layout to;
  double bytes = 0.0;
  Route steps;

  bool operator==(const RouteChoice&) const = default;
};

// The way that the choices have for so many bytes; that of reshard_steps() where they have none.
Route chosen_route(const std::vector<RouteChoice>& choices, const Layout& from, const Layout& to,
                   double bytes, const Mesh& mesh);

}  // namespace hidup
