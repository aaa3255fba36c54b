#include "sharding/read_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "schedule/csv.h"
#include "schedule/named.h"
#include "sharding/stages.h"
#include "yaml/yaml_tree.h"

namespace hidup {
namespace {

using Kind = YamlNode::Kind;

class ScheduleReader {
 public:
  ScheduleReader(const Strategy& strategy, StrategyFields& fields)
      : strategy_(strategy), fields_(fields) {}

  std::optional<StageSchedule> read(const YamlNode& node) {
    const YamlFields keys =
        fields_.fields_of(node, {"axis", "name"}, {"k", "live", "cuts", "order"});
    if (!fields_.problems().empty()) {
      return std::nullopt;
    }
    read_axis(keys.at("axis"));
    read_name(keys.at("name"));
    const bool custom = schedule_.name == kCustomSchedule;
    if (StrategyFields::is_given(keys.at("k"))) {
      schedule_.k = read_number(keys.at("k"), "k", named_ != nullptr && named_->takes_k, "kfkb");
    }
    if (StrategyFields::is_given(keys.at("live"))) {
      schedule_.live = read_number(keys.at("live"), "live", named_ != nullptr, "a named schedule");
    }
    read_cuts(keys.at("cuts"));
    if (custom != StrategyFields::is_given(keys.at("order"))) {
      fields_.report(node, custom ? "schedule: custom needs the key order: a row of cells per stage"
                                  : "schedule: order is for the name custom");
    }
    if (!fields_.problems().empty()) {
      return std::nullopt;
    }
    return prove(node, keys.at("order"));
  }

 private:
  void read_axis(const YamlNode& node) {
    const auto axis = std::ranges::find(strategy_.mesh, node.text, &Axis::name);
    if (axis == strategy_.mesh.end()) {
      fields_.report(node, fmt::format("schedule: the mesh has no axis {}", fields_.found(node)));
      return;
    }
    schedule_.axis = static_cast<size_t>(axis - strategy_.mesh.begin());
  }

  void read_name(const YamlNode& node) {
    schedule_.name = node.text;
    named_ = pipeline::find_schedule(node.text);
    if (named_ != nullptr || node.text == kCustomSchedule) {
      return;
    }
    fields_.report(
        node, fmt::format("schedule: expected custom, {}, found {}{}", pipeline::schedule_names(),
                          StrategyFields::found(node), pipeline::schedule_hint(node.text)));
  }

  int read_number(const YamlNode& node, const char* key, bool applies, const char* to) {
    if (!applies) {
      fields_.report(node, fmt::format("schedule: {} is for {}", key, to));
    }
    const int64_t number = whole_of(node, key, fields_.problems());
    if (number < 1 || number > kMost) {
      fields_.report(node, fmt::format("schedule: {}: expected a whole number from 1 to {}, found "
                                       "{}",
                                       key, kMost, fields_.found(node)));
    }
    return static_cast<int>(std::clamp<int64_t>(number, 1, kMost));
  }

  void read_cuts(const YamlNode& node) {
    for (const YamlNode& item : node.values) {
      const TensorId output = fields_.graph().find(item.text);
      if (output < 0 || fields_.graph().tensor(output).producer < 0) {
        fields_.report(item, fmt::format("schedule: cuts: the graph has no operation {}",
                                         fields_.found(item)));
        continue;
      }
      schedule_.cuts.push_back(fields_.graph().tensor(output).producer);
    }
    if (StrategyFields::is_given(node) && node.kind != Kind::list) {
      fields_.report(node,
                     "schedule: cuts: expected a list of operations, with which chunks begin");
    }
    std::ranges::sort(schedule_.cuts);
  }

  // Proves that the stages can keep the schedule.
  std::optional<StageSchedule> prove(const YamlNode& node, const YamlNode& order) {
    Strategy strategy = strategy_;
    strategy.schedule = schedule_;
    try {
      const Stages stages = stages_of(fields_.graph(), strategy);
      if (named_ == nullptr) {
        strategy.schedule->custom = read_order(order, stages);
      }
      schedule_of(fields_.graph(), strategy, stages);
    } catch (const Error& error) {
      check(error.code() == ExitCode::usage, "{}", error.what());
      fields_.report(named_ == nullptr ? order : node, fmt::format("schedule: {}", error.what()));
      return std::nullopt;
    }
    return strategy.schedule;
  }

  pipeline::Schedule read_order(const YamlNode& order, const Stages& stages) const {
    std::string text;
    for (const YamlNode& row : order.values) {
      text += row.text + "\n";
    }
    if (order.kind != Kind::list) {
      fail(ExitCode::usage,
           "order: expected a list with a row of cells per stage, such as "
           "\"0F0,0F1,0B0,0B1\"");
    }
    return pipeline::read_csv(text, stages.pipeline.chunks(), stages.pipeline.microbatches)
        .schedule;
  }

  static constexpr int64_t kMost = 1'000'000;

  const Strategy& strategy_;
  StrategyFields& fields_;
  const pipeline::NamedSchedule* named_ = nullptr;  // null: custom
  StageSchedule schedule_;
};

}  // namespace

std::optional<StageSchedule> read_schedule(const YamlNode& node, const Strategy& strategy,
                                           StrategyFields& fields) {
  return ScheduleReader(strategy, fields).read(node);
}

std::string print_schedule(const Graph& graph, const Strategy& strategy) {
  if (!strategy.schedule) {
    return "";
  }
  const StageSchedule& schedule = *strategy.schedule;
  std::string text = fmt::format("schedule: {{axis: {}, name: {}",
                                 yaml_word(strategy.mesh[schedule.axis].name), schedule.name);
  const pipeline::NamedSchedule* named = pipeline::find_schedule(schedule.name);
  if (named != nullptr && named->takes_k) {
    text += fmt::format(", k: {}", schedule.k);
  }
  if (schedule.live) {
    text += fmt::format(", live: {}", *schedule.live);
  }
  std::string cuts;
  for (const OpId cut : schedule.cuts) {
    cuts += (cuts.empty() ? "" : ", ") + yaml_word(graph.op_name(cut));
  }
  text += cuts.empty() ? "" : fmt::format(", cuts: [{}]", cuts);
  if (named == nullptr) {
    std::istringstream rows(
        pipeline::write_csv(stages_of(graph, strategy).pipeline, schedule.custom));
    std::string list;
    for (std::string row; std::getline(rows, row);) {
      list += fmt::format("{}\"{}\"", list.empty() ? "" : ",\n    ", row);
    }
    text += fmt::format(", order: [\n    {}]", list);
  }
  return text + "}\n";
}

}  // namespace hidup
