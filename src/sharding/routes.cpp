#include "sharding/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hidup {
namespace {

constexpr size_t kMostSteps = 4;
constexpr size_t kMostRoutes = 64;

// The change of an axis by a collective that several axes can share.
enum class Joint { none, sum, gather, scatter };

Joint joint_change(const Placement& from, const Placement& to) {
  if (from.is_partial()) {
    return to.is_replicate() ? Joint::sum : to.is_shard() ? Joint::scatter : Joint::none;
  }
  return from.is_shard() && to.is_replicate() ? Joint::gather : Joint::none;
}

// Returns true if both steps have the same text.
bool is_alike(const ReshardStep& a, const ReshardStep& b) {
  return a.kind == b.kind && a.axis == b.axis && a.inner == b.inner && a.flat == b.flat;
}

class RouteSearch {
 public:
  RouteSearch(const Layout& to, const Mesh& mesh) : to_(to), mesh_(mesh) {}

  std::vector<Route> run(const Layout& from) {
    go(from);
    return std::move(found_);
  }

  // Returns the all-to-alls along several axes that reach the layout in one step.
  std::vector<Route> exchanges(const Layout& from) const {
    std::vector<Route> routes;
    for (ReshardStep& step : exchange_steps(from)) {
      if (step.to == to_) {
        routes.push_back({std::move(step)});
      }
    }
    return routes;
  }

 private:
  void go(const Layout& now) {
    if (now == to_ && std::ranges::none_of(found_, [&](const Route& route) {
          return std::ranges::equal(route, path_, is_alike);
        })) {
      found_.push_back(path_);
    }
    if (now == to_ || path_.size() == kMostSteps) {
      return;
    }
    for (const ReshardStep& step : next_steps(now)) {
      if (found_.size() < kMostRoutes) {
        path_.push_back(step);
        go(step.to);
        path_.pop_back();
      }
    }
  }

  std::vector<ReshardStep> next_steps(const Layout& now) const {
    std::vector<ReshardStep> steps;
    const auto add = [&](ReshardStep step) {
      if (std::ranges::find(steps, step) == steps.end()) {
        steps.push_back(std::move(step));
      }
    };
    for (const Joint kind : {Joint::sum, Joint::gather, Joint::scatter}) {
      for (const std::vector<size_t>& axes : joint_axes(now, kind)) {
        for (const bool flat : {false, true}) {
          add(joint_step(now, kind, axes, flat));
        }
      }
    }
    for (ReshardStep& step : exchange_steps(now)) {
      if (std::ranges::none_of(path_, [&](const ReshardStep& one) { return meets(one, step); })) {
        add(std::move(step));
      }
    }
    for (ReshardStep& step : cuts_before_exchange(now)) {
      add(std::move(step));
    }
    for (size_t axis = 0; axis < now.size(); ++axis) {
      if (now[axis] != to_[axis]) {
        add(next_step(now, to_, mesh_, axis));
      }
    }
    return steps;
  }

  // Returns sets of at least two axes, outermost first: for shards, axes of one dimension.
  std::vector<std::vector<size_t>> joint_axes(const Layout& now, Joint kind) const {
    std::vector<std::vector<size_t>> sets;
    for (int dim = 0; dim < kMaxDims; ++dim) {
      std::vector<size_t> axes;
      for (size_t axis = 0; axis < now.size(); ++axis) {
        const bool fits = mesh_[axis].size > 1 && joint_change(now[axis], to_[axis]) == kind;
        if (fits && (kind == Joint::sum || shard_of(now[axis], to_[axis]) == dim)) {
          axes.push_back(axis);
        }
      }
      if (axes.size() > 1 && (kind == Joint::sum || none_inside(now, axes, dim))) {
        sets.push_back(std::move(axes));
      }
      if (kind == Joint::sum) {
        break;
      }
    }
    return sets;
  }

  // Returns all-to-alls along several axes. An axis on which the value shall be whole is cut in the
  // dimension of the outermost of them; a later step gathers it.
  std::vector<ReshardStep> exchange_steps(const Layout& now) const {
    std::vector<ReshardStep> steps;
    for (unsigned set = 0; set < 1U << now.size(); ++set) {
      std::vector<size_t> axes;
      for (size_t axis = 0; axis < now.size(); ++axis) {
        if ((set >> axis) % 2 == 1) {
          axes.push_back(axis);
        }
      }
      const bool several = axes.size() > 1 && to_[axes[0]].is_shard();
      if (!several || !std::ranges::all_of(axes, [&](size_t axis) {
            return mesh_[axis].size > 1 && now[axis].is_shard() && !to_[axis].is_partial();
          })) {
        continue;
      }
      Layout next = now;
      for (const size_t axis : axes) {
        next[axis] = to_[axis].is_shard() ? to_[axis] : Placement::shard(to_[axes[0]].dim);
      }
      if (exchanges_alone(now, next, axes)) {
        for (const bool flat : {false, true}) {
          steps.push_back({.kind = ReshardKind::all_to_all,
                           .axis = axes[0],
                           .to = next,
                           .inner = {axes.begin() + 1, axes.end()},
                           .flat = flat});
        }
      }
    }
    return steps;
  }

  // Returns true if the step sends along one of the exchange's axes.
  static bool meets(const ReshardStep& step, const ReshardStep& exchange) {
    const auto exchanges = [&](size_t axis) {
      return axis == exchange.axis ||
             std::ranges::find(exchange.inner, axis) != exchange.inner.end();
    };
    return !is_local(step.kind) &&
           (exchanges(step.axis) || std::ranges::any_of(step.inner, exchanges));
  }

  // Returns true if the change moves parts along each of these axes, and along no other.
  static bool exchanges_alone(const Layout& now, const Layout& next,
                              const std::vector<size_t>& axes) {
    for (size_t axis = 0; axis < now.size(); ++axis) {
      bool moves = now[axis] != next[axis];
      for (size_t outer = 0; outer < axis; ++outer) {  // outer changes move inner cuts
        moves |= now[outer] != next[outer] && (cuts(now[axis], now[outer], next[outer]) ||
                                               cuts(next[axis], now[outer], next[outer]));
      }
      if (moves != (std::ranges::find(axes, axis) != axes.end())) {
        return false;
      }
    }
    return true;
  }

  static bool cuts(const Placement& placement, const Placement& a, const Placement& b) {
    return placement.is_shard() && (placement.dim == a.dim || placement.dim == b.dim);
  }

  // Cuts a value that is whole along an axis in the dimension of the axis outside of it, so that
  // both exchange it together: otherwise every rank of the inner axis would send the same data.
  std::vector<ReshardStep> cuts_before_exchange(const Layout& now) const {
    std::vector<ReshardStep> steps;
    for (size_t axis = 1; axis < now.size(); ++axis) {
      const Placement& outer = now[axis - 1];
      const bool exchanges =
          outer.is_shard() && to_[axis - 1].is_shard() && outer.dim != to_[axis - 1].dim;
      if (exchanges && mesh_[axis].size > 1 && now[axis].is_replicate() && to_[axis].is_shard() &&
          none_inside(now, {axis}, outer.dim)) {
        steps.push_back({.kind = ReshardKind::slice, .axis = axis, .to = now});
        steps.back().to[axis] = Placement::shard(outer.dim);
      }
    }
    return steps;
  }

  static int shard_of(const Placement& from, const Placement& to) {
    return from.is_shard() ? from.dim : to.dim;
  }

  // Returns true if no other axis cuts the dimension of these axes inside of one of them.
  static bool none_inside(const Layout& now, const std::vector<size_t>& axes, int dim) {
    for (size_t axis = axes.front() + 1; axis < now.size(); ++axis) {
      const bool cuts = now[axis].is_shard() && now[axis].dim == dim;
      if (cuts && std::ranges::find(axes, axis) == axes.end()) {
        return false;
      }
    }
    return true;
  }

  ReshardStep joint_step(const Layout& now, Joint kind, const std::vector<size_t>& axes,
                         bool flat) const {
    static constexpr std::array kKinds = {ReshardKind::slice, ReshardKind::all_reduce,
                                          ReshardKind::all_gather, ReshardKind::reduce_scatter};
    ReshardStep step{.kind = kKinds.at(static_cast<size_t>(kind)),
                     .axis = axes.front(),
                     .to = now,
                     .inner = {axes.begin() + 1, axes.end()},
                     .flat = flat};
    for (const size_t axis : axes) {
      step.to[axis] = to_[axis];
    }
    return step;
  }

  const Layout& to_;
  const Mesh& mesh_;
  Route path_;
  std::vector<Route> found_;
};

bool is_equal_everywhere(const Layout& layout) {
  return std::ranges::all_of(layout, &ShareNumber::is_equal, &Placement::share);
}

}  // namespace

std::vector<Route> reshard_routes(const Layout& from, const Layout& to, const Mesh& mesh) {
  Route first = reshard_steps(from, to, mesh);
  std::vector<Route> routes;
  if (first.size() > 1) {
    RouteSearch search(to, mesh);
    routes = is_equal_everywhere(from) && is_equal_everywhere(to) ? search.run(from)
                                                                  : search.exchanges(from);
    std::erase_if(routes,
                  [&](const Route& route) { return std::ranges::equal(route, first, is_alike); });
  }
  routes.insert(routes.begin(), std::move(first));
  return routes;
}

std::string to_string(const Route& route, const Mesh& mesh) {
  std::string text;
  for (const ReshardStep& step : route) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(step.kind),
                        axes_text(mesh, step.axis, step.inner, step.flat));
  }
  return text;
}

Route chosen_route(const std::vector<RouteChoice>& choices, const Layout& from, const Layout& to,
                   double bytes, const Mesh& mesh) {
  const RouteChoice* best = nullptr;
  for (const RouteChoice& choice : choices) {
    if (choice.from == from && choice.to == to && choice.bytes <= bytes &&
        (best == nullptr || choice.bytes >= best->bytes)) {
      best = &choice;
    }
  }
  return best != nullptr ? best->steps : reshard_steps(from, to, mesh);
}

}  // namespace hidup
