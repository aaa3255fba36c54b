#include "sharding/strategy_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "core/limits.h"
#include "core/log.h"
#include "core/text.h"
#include "graph/batch.h"
#include "graph/text.h"

namespace hidup {

using Kind = YamlNode::Kind;

bool StrategyFields::is_given(const YamlNode& node) {
  return node.kind != Kind::null;
}

std::string StrategyFields::found(const YamlNode& node) {
  return node.text.empty() ? "nothing" : shown(node.text);
}

void StrategyFields::expect_text(const YamlNode& node, std::string_view key,
                                 const std::string& wanted, std::string_view why) {
  if (node.kind != Kind::scalar || node.text != wanted) {
    report(node, fmt::format("{}: expected {}, found {}{}", key, wanted,
                             node.kind == Kind::scalar ? shown(node.text) : "something else", why));
  }
}

void StrategyFields::check_version(const YamlNode& node) {
  if (node.text != "1" && node.text != "2") {
    report(node, fmt::format("format_version: expected 1 or 2, found {}", found(node)));
  }
}

void StrategyFields::read_shares(const YamlNode& node, const YamlNode& version) {
  if (node.kind == Kind::null) {
    return;
  }
  check_format_2(node, "shares", version);
  if (node.kind != Kind::map) {
    report(node, "shares: expected a map of axes to lists of shares");
    return;
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const auto axis = std::ranges::find(mesh_, node.keys[i].text, &Axis::name);
    if (!seen.insert(node.keys[i].text).second) {
      report(node.keys[i], fmt::format("shares: {} is given twice", found(node.keys[i])));
    } else if (axis == mesh_.end()) {
      report(node.keys[i], fmt::format("shares: the mesh has no axis {}", found(node.keys[i])));
    } else {
      read_shares(node.values[i], *axis);
    }
  }
}

void StrategyFields::read_shares(const YamlNode& node, Axis& axis) {
  for (const YamlNode& item : node.values) {
    Share share;
    for (const YamlNode& weight : item.values) {
      share.push_back(whole_of(weight, "shares", problems_));
    }
    const bool in_range = std::ranges::all_of(
        share, [](int64_t weight) { return weight >= 0 && weight <= kMostWeight; });
    if (static_cast<int64_t>(share.size()) != axis.size || !in_range ||
        std::ranges::count(share, 0) == axis.size) {
      report(item, fmt::format("shares: {}: expected {} whole numbers from 0 to {}, not all of "
                               "them 0",
                               axis.name, axis.size, kMostWeight));
      share.assign(static_cast<size_t>(axis.size), 1);
    }
    axis.shares.push_back(std::move(share));
  }
  if (node.kind != Kind::list || axis.shares.empty()) {
    report(node, fmt::format("shares: {}: expected a list of shares", axis.name));
  }
}

bool StrategyFields::check_share(const YamlNode& node, size_t axis, ShareNumber share) {
  if (has_share(mesh_[axis], share)) {
    return true;
  }
  report(node, fmt::format("{}: the axis {} has {} share(s) and {} rank(s)", found(node),
                           mesh_[axis].name, mesh_[axis].shares.size(), mesh_[axis].size));
  return false;
}

void StrategyFields::check_graph(const YamlNode& node) {
  expect_text(node, "graph_hash", fmt::format("{:016x}", graph_hash(graph_)),
              ": the strategy was made for another graph (model sizes, batch or vocabulary)");
}

void StrategyFields::check_mesh(const YamlNode& node) {
  std::vector<std::string> found;
  for (const YamlNode& axis : node.values) {
    const YamlFields fields = fields_of(axis, {"name", "size"});
    found.push_back(fmt::format("{}={}", fields.at("name").text, fields.at("size").text));
  }
  std::vector<std::string> wanted;
  for (const Axis& axis : mesh_) {
    wanted.push_back(fmt::format("{}={}", axis.name, axis.size));
  }
  if (node.kind != Kind::list || found != wanted) {
    report(node,
           fmt::format("mesh: expected {} of the cluster and its ranks, found {}",
                       fmt::join(wanted, " "), shown(fmt::format("{}", fmt::join(found, " ")))));
  }
}

int StrategyFields::read_count(const YamlNode& node, std::string_view key) {
  int count = 1;
  const char* end_of_text = node.text.data() + node.text.size();
  const auto [end, status] = std::from_chars(node.text.data(), end_of_text, count);
  if (status != std::errc() || end != end_of_text || count < 1 || count > kMaxMicrobatches) {
    report(node, fmt::format("{}: expected a whole number from 1 to {}, found {}", key,
                             kMaxMicrobatches, found(node)));
    return 1;
  }
  return count;
}

int StrategyFields::read_accumulate(const YamlNode& node, int microbatches) {
  const int groups = read_count(node, "accumulate");
  if (const std::string obstacle = accumulate_obstacle(graph_); groups > 1 && !obstacle.empty()) {
    report(node, "accumulate: " + obstacle);
    return 1;
  }
  const int64_t batch = batch_of(graph_);
  if (int64_t{groups} * microbatches > std::max<int64_t>(batch, 1)) {
    report(node, fmt::format("accumulate: expected at most {} microbatches in all, the sequences "
                             "of a step, found {} groups of {}",
                             batch, groups, microbatches));
    return 1;
  }
  return groups;
}

bool StrategyFields::is_second_of(const YamlNode& node, const std::string& what, const char* first,
                                  const char* second) {
  const std::vector<std::string> known = {first, second};
  if (std::ranges::find(known, node.text) == known.end()) {
    const std::string hint = nearest(node.text, known);
    report(node, fmt::format("{}: expected {} or {}, found {}{}", what, first, second, found(node),
                             hint.empty() ? "" : fmt::format(": did you mean {}?", hint)));
  }
  return node.text == second;
}

bool StrategyFields::read_recompute(const YamlNode& node, OpId id) {
  const std::string& name = graph_.op_name(id);
  if (!is_second_of(node, name + ": recompute", "false", "true")) {
    return false;
  }
  if (!can_recompute(graph_, id)) {
    report(node, name + ": recompute: the loss is computed once");
  }
  return can_recompute(graph_, id);
}

std::optional<Residency> StrategyFields::read_residency(const YamlFields& fields,
                                                        const std::string& parameter) {
  const YamlNode& value = fields.at(kReshardAfterForward);
  const YamlNode& old = fields.at(kKept);
  if (!is_given(value) && !is_given(old)) {
    return std::nullopt;
  }
  if (is_given(value) && is_given(old)) {
    report(old,
           parameter + ": kept is the old spelling of reshard_after_forward: expected one of them");
  }
  if (is_given(old) && !warned_) {
    warned_ = true;
    log::warning("{}:{}:{}: kept is called reshard_after_forward now: pass is true, step is false",
                 source_, old.line, old.column);
  }
  const bool is_pass =
      is_given(old) ? is_second_of(old, parameter + ": kept", "step", "pass")
                    : is_second_of(value, parameter + ": reshard_after_forward", "false", "true");
  return is_pass ? Residency::pass : Residency::step;
}

void StrategyFields::check_format_2(const YamlNode& node, std::string_view key,
                                    const YamlNode& version) {
  if (version.text == "1") {
    report(node,
           fmt::format("{}: files of format_version 1 have none; expected format_version: 2", key));
  }
}

int StrategyFields::read_microbatches(const YamlNode& node) {
  const int microbatches = read_count(node, "microbatches");
  if (const std::string obstacle = batch_obstacle(graph_); microbatches > 1 && !obstacle.empty()) {
    report(node,
           fmt::format("microbatches: the batch of this graph cannot be split: {}", obstacle));
    return 1;
  }
  if (const int64_t batch = batch_of(graph_); microbatches > std::max<int64_t>(batch, 1)) {
    report(node, fmt::format("microbatches: expected at most {}, the sequences of a step, found {}",
                             batch, microbatches));
    return 1;
  }
  return microbatches;
}

bool StrategyFields::read_deferred(const YamlNode& node) {
  if (node.text != "overlapped" && node.text != "deferred") {
    report(node, "gradients: expected overlapped or deferred");
  }
  return node.text == "deferred";
}

bool StrategyFields::check_rules(const YamlNode& node, std::string_view op) {
  if (node.kind == Kind::list && node.values.size() == mesh_.size()) {
    return true;
  }
  report(node,
         fmt::format("{}: rule: expected a list of {} rule(s), one per axis", op, mesh_.size()));
  return false;
}

std::optional<Rule> StrategyFields::read_rule(const YamlNode& node, OpId id, size_t axis) {
  const std::string_view text = node.text;
  const std::string_view name = text.substr(0, text.find_first_of("%@"));
  const std::optional<ShareNumber> share = parse_share_number(text.substr(name.size()));
  std::vector<std::string> names;
  for (const Rule& rule : rules_of(graph_, id)) {
    if (rule.name == name && share) {
      if (!check_share(node, axis, *share)) {
        return std::nullopt;
      }
      if (takes_share(rule, mesh_[axis], *share)) {
        return with_share(rule, mesh_[axis], *share);
      }
    }
    names.push_back(rule.name);
  }
  const std::string hint = nearest(node.text, names);
  report(node, fmt::format("{} cannot be sharded by {}{}; legal rules: {}", graph_.op_name(id),
                           found(node), hint.empty() ? "" : fmt::format(": did you mean {}?", hint),
                           fmt::join(names, ", ")));
  return std::nullopt;
}

void StrategyFields::check_placements(const YamlFields& fields, OpId id, const OpStrategy& op) {
  std::vector<Layout> inputs;
  for (size_t i = 0; i < graph_.op(id).inputs.size(); ++i) {
    inputs.push_back(input_layout(op, i));
  }
  compare(fields.at("inputs"), "inputs", id, op, inputs);
  compare(fields.at("outputs"), "outputs", id, op, {output_layout(op)});
}

void StrategyFields::compare(const YamlNode& node, std::string_view key, OpId id,
                             const OpStrategy& op, const std::vector<Layout>& wanted) {
  if (node.kind == Kind::null) {
    return;
  }
  std::vector<Layout> found;
  for (const YamlNode& layout : node.values) {
    found.push_back(read_layout(layout, fmt::format("{}: {}", graph_.op_name(id), key)));
  }
  if (found == wanted) {
    return;
  }
  std::vector<std::string> texts;
  texts.reserve(wanted.size());
  for (const Layout& layout : wanted) {
    texts.push_back(print_layout(layout));
  }
  std::vector<std::string> rules;
  for (const Rule& rule : op.rules) {
    rules.push_back(to_string(rule));
  }
  report(node,
         fmt::format("{}: the rule {} has the {} [{}]; change the rule, and leave inputs "
                     "and outputs out or make them the rule's",
                     graph_.op_name(id), fmt::join(rules, ", "), key, fmt::join(texts, ", ")));
}

Layout StrategyFields::read_layout(const YamlNode& node, const std::string& what) {
  Layout layout;
  for (const YamlNode& item : node.values) {
    const std::optional<Placement> placement = parse_placement(item.text);
    if (!placement) {
      report(item, fmt::format("{}: expected R, S(dimension) or P, found {}", what, found(item)));
    } else if (layout.size() < mesh_.size() && check_share(item, layout.size(), placement->share)) {
      layout.push_back(with_share(*placement, mesh_[layout.size()], placement->share));
      continue;
    }
    layout.push_back(Placement::replicate());
  }
  if (node.kind != Kind::list || layout.size() != mesh_.size()) {
    report(node,
           fmt::format("{}: expected a list of {} placement(s), one per axis", what, mesh_.size()));
    layout.assign(mesh_.size(), Placement::replicate());
  }
  return layout;
}

Layout StrategyFields::read_storage(const YamlNode& node, const Tensor& tensor,
                                    std::string_view key) {
  const std::string what = fmt::format("{}: {}", tensor.name, key);
  Layout layout = read_layout(node, what);
  for (const Placement& placement : layout) {
    const bool fits =
        placement.is_replicate() ||
        (placement.is_shard() && placement.dim < static_cast<int>(tensor.shape.size()));
    if (!fits) {
      report(node,
             fmt::format("{} cannot be {}: a parameter of {} dimension(s) is stored R or "
                         "S(0) to S({})",
                         what, to_string(placement), tensor.shape.size(), tensor.shape.size() - 1));
    }
  }
  return layout;
}

}  // namespace hidup
