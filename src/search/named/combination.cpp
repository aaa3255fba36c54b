#include "search/named/combination.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/deadline.h"
#include "core/text.h"
#include "search/named/rules_by_name.h"

namespace hidup {
namespace {

struct NameOfAxis {
  std::string axis;
  const NamedStrategy* name;
};

std::vector<NameOfAxis> parse(std::string_view text) {
  std::vector<NameOfAxis> found;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      fail(ExitCode::usage,
           "--strategy {}: expected AXIS=NAME for every axis, such as gpu=dp, found {}",
           shown(text), part.empty() ? "nothing" : shown(part));
    }
    const std::string axis(part.substr(0, equals));
    const std::string_view name = part.substr(equals + 1);
    const NamedStrategy* known = find_strategy(name);
    if (known == nullptr) {
      fail_unknown_strategy(text, name);
    }
    if (std::ranges::find(found, axis, &NameOfAxis::axis) != found.end()) {
      fail(ExitCode::usage, "--strategy {}: axis {} is named twice", shown(text), shown(axis));
    }
    found.push_back({axis, known});
  }
  return found;
}

// Returns a strategy per axis of the mesh.
std::vector<const NamedStrategy*> names_of(std::string_view text, const Mesh& mesh) {
  std::vector<std::string> axes(mesh.size());
  std::ranges::transform(mesh, axes.begin(), &Axis::name);
  std::vector<const NamedStrategy*> names(mesh.size());
  for (const NameOfAxis& each : parse(text)) {
    const auto axis = std::ranges::find(axes, each.axis);
    if (axis == axes.end()) {
      const std::string hint = nearest(each.axis, axes);
      fail(ExitCode::usage, "--strategy {}: the mesh has no axis {}{}; its axes are {}",
           shown(text), shown(each.axis),
           hint.empty() ? "" : fmt::format(" (did you mean {}?)", hint), fmt::join(axes, ", "));
    }
    names[static_cast<size_t>(axis - axes.begin())] = each.name;
  }
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (names[axis] == nullptr) {
      fail(ExitCode::usage, "--strategy {}: axis {} has no strategy; the mesh's axes are {}",
           shown(text), mesh[axis].name, fmt::join(axes, ", "));
    }
  }
  return names;
}

std::string joined(std::span<const NamedStrategy* const> names, const Mesh& mesh) {
  std::string text;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    text += fmt::format("{}{}={}", axis == 0 ? "" : ",", mesh[axis].name, names[axis]->name);
  }
  return text;
}

// Describes the first axis to which other axes leave at most one element of a dimension, so that it
// divides nothing; empty without any.
std::string nothing_left(const Tensor& tensor, const Layout& layout, const Mesh& mesh) {
  Shape rest = tensor.shape;
  std::vector<int> cut_by(rest.size(), -1);
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (!layout[axis].is_shard() || mesh[axis].size == 1) {
      continue;
    }
    const auto dim = static_cast<size_t>(layout[axis].dim);
    if (cut_by[dim] >= 0 && rest[dim] <= 1) {
      const Axis& before = mesh[static_cast<size_t>(cut_by[dim])];
      return fmt::format(
          "axes {} and {} both cut the dimension {} of {}, which has {} elements: {} leaves {} "
          "nothing to cut",
          before.name, mesh[axis].name,
          dim < tensor.dims.size() ? tensor.dims[dim] : fmt::format("{}", dim), tensor.name,
          tensor.shape[dim], before.name, mesh[axis].name);
    }
    cut_by[dim] = static_cast<int>(axis);
    rest[dim] = (rest[dim] + mesh[axis].size - 1) / mesh[axis].size;
  }
  return "";
}

// Returns the reason why the names cannot be combined; empty where they can.
std::string obstacle(const Graph& graph, const Strategy& strategy,
                     std::span<const NamedStrategy* const> names) {
  for (size_t axis = 0; axis < names.size(); ++axis) {
    const auto all = [&](bool (*is_so)(const Rule& rule)) {
      return std::ranges::all_of(strategy.ops,
                                 [&](const OpStrategy& op) { return is_so(op.rules[axis]); });
    };
    const std::string of_axis =
        fmt::format("{} on axis {}", names[axis]->name, strategy.mesh[axis].name);
    if (names[axis]->of_experts && all([](const Rule& rule) { return rule.name != "expert"; })) {
      return of_axis + " needs experts, and the model has none";
    }
    if (strategy.mesh[axis].size > 1 && !names[axis]->of_stages &&
        all([](const Rule& rule) { return rule.name == "replicate"; })) {
      return of_axis + " finds no operation to cut";
    }
  }
  if (std::ranges::adjacent_find(names, std::not_equal_to<>()) == names.end()) {
    return "";  // the name alone, which may leave ranks without work
  }
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    const Op& self = graph.ops()[op];
    std::string found =
        nothing_left(graph.tensor(self.output), output_layout(strategy.ops[op]), strategy.mesh);
    for (size_t i = 0; i < self.inputs.size() && found.empty(); ++i) {
      found = nothing_left(graph.tensor(self.inputs[i]), input_layout(strategy.ops[op], i),
                           strategy.mesh);
    }
    if (!found.empty()) {
      return found;
    }
  }
  return "";
}

// Returns equal hashes for strategies that differ only in name, or on axes of one rank.
uint64_t content_hash(const Strategy& strategy) {
  uint64_t hash = hash_of(strategy.defer_gradients ? "deferred" : "");
  const auto add_hash = [&](const Layout& layout) {
    for (size_t axis = 0; axis < layout.size(); ++axis) {
      if (strategy.mesh[axis].size > 1) {
        hash = hash_of(to_string(layout[axis]), hash_of(",", hash));
      }
    }
  };
  for (const OpStrategy& op : strategy.ops) {
    for (size_t axis = 0; axis < op.rules.size(); ++axis) {
      if (strategy.mesh[axis].size > 1) {
        hash = hash_of(op.rules[axis].name, hash_of(",", hash));
      }
    }
  }
  for (const ParameterStrategy& parameter : strategy.parameters) {
    add_hash(parameter.storage);
    add_hash(parameter.optimizer_state);
    hash = hash_of(name_of(parameter.residency), hash);
  }
  return hash;
}

}  // namespace

bool is_combination(std::string_view text) {
  return text.find('=') != std::string_view::npos;
}

void check_combination(std::string_view text) {
  parse(text);
}

Strategy combined_strategy(std::string_view text, const Graph& graph, const Mesh& mesh) {
  const std::vector<const NamedStrategy*> names = names_of(text, mesh);
  Strategy strategy = RulesByName(graph, mesh).strategy(names);
  const std::string why_not = obstacle(graph, strategy, names);
  if (!why_not.empty()) {
    fail(ExitCode::usage, "--strategy {}: {}", shown(text), why_not);
  }
  strategy.name = joined(names, mesh);
  return strategy;
}

Strategy Baselines::strategy(const Names& names) {
  const bool whole = names.alone != nullptr && names.alone->whole != nullptr;
  Strategy strategy = whole ? names.alone->whole(graph_, mesh_) : rules_.strategy(names.of_axes);
  strategy.name =
      names.alone != nullptr ? std::string(names.alone->name) : joined(names.of_axes, mesh_);
  return strategy;
}

Strategy Baselines::strategy(size_t number) {
  return strategy(names_.at(number));
}

Baselines::Baselines(const Graph& graph, const Mesh& mesh)
    : graph_(graph), mesh_(mesh), rules_(graph, mesh) {
  std::unordered_set<uint64_t> known;
  const auto add = [&](Names names, bool legal_only) {
    TimeLimit::check();
    const Strategy made = strategy(names);
    if (legal_only && !obstacle(graph, made, names.of_axes).empty()) {
      return;
    }
    const bool is_new = known.insert(content_hash(made)).second;
    if (is_new || !legal_only) {
      names_.push_back(std::move(names));
    }
  };
  for (const std::string_view name : plain_names(graph, mesh)) {
    const NamedStrategy* alone = find_strategy(name);
    add({alone, names_of_axes(*alone, mesh)}, false);
  }
  std::vector<const NamedStrategy*> choices;  // names on an axis
  for (const std::string_view name : plain_names(graph, mesh)) {
    if (find_strategy(name)->on_outer_axes.empty()) {
      choices.push_back(find_strategy(name));
    }
  }
  std::vector<size_t> axes;  // with several ranks
  size_t combinations = 1;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (mesh[axis].size > 1) {
      axes.push_back(axis);
      combinations = std::min(combinations, kMostCombinations + 1) * choices.size();
    }
  }
  if (axes.size() < 2 || (axes.size() > 2 && combinations > kMostCombinations)) {
    return;
  }
  std::vector<const NamedStrategy*> names(mesh.size(), choices[0]);
  for (size_t number = 0; number < combinations; ++number) {
    size_t rest = number;
    for (size_t a = axes.size(); a-- > 0; rest /= choices.size()) {
      names[axes[a]] = choices[rest % choices.size()];
    }
    add({nullptr, names}, true);
  }
}

}  // namespace hidup
