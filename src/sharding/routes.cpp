#include "sharding/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace hidup {
namespace {

constexpr size_t kMostSteps = 4;
constexpr size_t kMostRoutes = 64;

// What an axis becomes by a collective that several axes can do together.
enum class Joint { none, sum, gather, scatter };

Joint joint_change(const Placement& from, const Placement& to) {
  if (from.is_partial()) {
    return to.is_replicate() ? Joint::sum : to.is_shard() ? Joint::scatter : Joint::none;
  }
  return from.is_shard() && to.is_replicate() ? Joint::gather : Joint::none;
}

class RouteSearch {
 public:
  RouteSearch(const Layout& to, const Mesh& mesh) : to_(to), mesh_(mesh) {}

  std::vector<Route> run(const Layout& from) {
    go(from);
    return std::move(found_);
  }

 private:
  void go(const Layout& now) {
    if (now == to_) {
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
        add(joint_step(now, kind, axes));
      }
    }
    for (size_t axis = 0; axis < now.size(); ++axis) {
      if (now[axis] != to_[axis]) {
        add(next_step(now, to_, mesh_, axis));
      }
    }
    return steps;
  }

  // Sets of at least two axes, outermost first: for shards, those of one dimension.
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

  static int shard_of(const Placement& from, const Placement& to) {
    return from.is_shard() ? from.dim : to.dim;
  }

  // Whether no other axis cuts what those axes cut inside of one of them.
  static bool none_inside(const Layout& now, const std::vector<size_t>& axes, int dim) {
    for (size_t axis = axes.front() + 1; axis < now.size(); ++axis) {
      const bool cuts = now[axis].is_shard() && now[axis].dim == dim;
      if (cuts && std::ranges::find(axes, axis) == axes.end()) {
        return false;
      }
    }
    return true;
  }

  ReshardStep joint_step(const Layout& now, Joint kind, const std::vector<size_t>& axes) const {
    static constexpr std::array kKinds = {ReshardKind::slice, ReshardKind::all_reduce,
                                          ReshardKind::all_gather, ReshardKind::reduce_scatter};
    ReshardStep step{.kind = kKinds.at(static_cast<size_t>(kind)),
                     .axis = axes.front(),
                     .to = now,
                     .inner = {axes.begin() + 1, axes.end()}};
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
  if (first.size() > 1 && is_equal_everywhere(from) && is_equal_everywhere(to)) {
    routes = RouteSearch(to, mesh).run(from);
    std::erase(routes, first);
  }
  routes.insert(routes.begin(), std::move(first));
  return routes;
}

std::string to_string(const Route& route, const Mesh& mesh) {
  std::string text;
  for (const ReshardStep& step : route) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(step.kind),
                        axes_text(mesh, step.axis, step.inner));
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
