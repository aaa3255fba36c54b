#include "random_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cost/roofline.h"
#include "graph/text.h"
#include "search/problem/build_problem.h"
#include "sharding/rules.h"

namespace hidup {
namespace {

class GraphMaker {
 public:
  GraphMaker(std::mt19937_64& random, size_t axes) : random_(random), axes_(axes) {}

  Graph graph() {
    batch_ = between(4, 16);
    sequence_ = between(2, 32);
    const int64_t words = between(10, 200);
    inputs_ =
        fmt::format("graph random\ninput tokens : i32[{0}, {1}]\ninput targets : i32[{0}, {1}]\n",
                    batch_, sequence_);
    width_ = between(8, 256);
    add_operation(width_, fmt::format("embedding(tokens, {})", parameter({words, width_})));
    const int64_t middle = between(1, 3);
    for (int64_t op = 0; op < middle; ++op) {
      add_middle();
    }
    return parse_graph(inputs_ + operations_ +
                           fmt::format("loss = cross_entropy({}, targets)\n", values_.back().name),
                       "random");
  }

  Mesh mesh() {
    if (axes_ == 3) {
      return {{"pod", 2}, {"node", 2}, {"gpu", 2}};
    }
    if (axes_ == 1) {
      return {{"gpu", between(2, 4)}};
    }
    return {{"node", 2}, {"gpu", between(2, 3)}};
  }

  MachineRates machine() {
    MachineRates rates{.flops = log_between(1e11, 1e13),
                       .memory_bandwidth = log_between(1e10, 1e12)};
    for (size_t axis = 0; axis < axes_; ++axis) {
      rates.links.push_back(
          {.bandwidth = log_between(1e8, 1e11), .latency_s = log_between(1e-7, 1e-4)});
    }
    return rates;
  }

 private:
  struct Value {
    std::string name;
    int64_t width;
  };

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  double log_between(double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random_));
  }

  std::string parameter(const std::vector<int64_t>& shape) {
    std::string name = fmt::format("w{}", parameters_++);
    inputs_ +=
        fmt::format("parameter {} : f32[{}] = uniform(0.1) decay\n", name, fmt::join(shape, ", "));
    return name;
  }

  void add_operation(int64_t width, const std::string& text) {
    values_.push_back({fmt::format("x{}", values_.size()), width});
    operations_ += fmt::format("{} = {}\n", values_.back().name, text);
  }

  // Adds the last two values where their widths agree; else applies an operation to the last one.
  void add_middle() {
    const Value last = values_.back();
    const int64_t kind = between(0, 4);
    if (kind == 0 && values_.size() > 1 && values_[values_.size() - 2].width == last.width) {
      add_operation(last.width,
                    fmt::format("add({}, {})", values_[values_.size() - 2].name, last.name));
    } else if (kind == 1) {
      add_operation(last.width, fmt::format("relu({})", last.name));
    } else if (kind == 2) {
      add_operation(last.width, fmt::format("bias({}, {})", last.name, parameter({last.width})));
    } else {
      const int64_t width = between(8, 256);
      add_operation(width,
                    fmt::format("matmul({}, {})", last.name, parameter({last.width, width})));
    }
  }

  std::mt19937_64& random_;
  size_t axes_;
  int64_t batch_ = 0, sequence_ = 0, width_ = 0;
  int parameters_ = 0;
  std::string inputs_, operations_;
  std::vector<Value> values_;
};

}  // namespace

RandomSetting random_setting(std::mt19937_64& random, size_t axes) {
  GraphMaker maker(random, axes);
  Graph graph = maker.graph();
  Mesh mesh = maker.mesh();
  CostModel costs(roofline_profile(mesh, maker.machine()));
  return {std::move(graph), std::move(mesh), std::move(costs)};
}

Strategy random_rules(const RandomSetting& setting, std::mt19937_64& random) {
  Strategy strategy{.mesh = setting.mesh};
  for (OpId op = 0; op < static_cast<OpId>(setting.graph.ops().size()); ++op) {
    const std::vector<Rule> rules = rules_of(setting.graph, op);
    OpStrategy& op_strategy = strategy.ops.emplace_back();
    for (size_t axis = 0; axis < setting.mesh.size(); ++axis) {
      op_strategy.rules.push_back(rules[random() % rules.size()]);
    }
  }
  return strategy;
}

double plans_of(const Problem& problem) {
  double plans = 1.0;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    plans *= static_cast<double>(problem.choices_of(op).choices.size());
  }
  return plans;
}

void thin_out(Problem& problem, double most_plans, std::mt19937_64& random) {
  while (plans_of(problem) > most_plans) {
    std::vector<Choice>& choices =
        std::ranges::max_element(problem.kinds, {}, [](const OpChoices& kind) {
          return kind.choices.size();
        })->choices;
    choices.erase(choices.begin() + static_cast<ptrdiff_t>(random() % choices.size()));
  }
}

Hints random_hints(const RandomSetting& setting, double most_plans, std::mt19937_64& random) {
  Hints hints{.mesh = setting.mesh, .defer_gradients = false};
  const size_t ops = setting.graph.ops().size();
  hints.resize_ops(ops, setting.mesh.size());
  const auto pin = [&](size_t op) {
    const std::vector<Rule> rules = rules_of(setting.graph, static_cast<OpId>(op));
    hints.ops[op].rules[random() % setting.mesh.size()] = rules[random() % rules.size()];
  };
  for (size_t op = 0; op < ops; ++op) {
    pin(op);
  }
  const auto plans = [&] {
    return plans_of(
        build_problem(setting.graph, setting.mesh, setting.costs, {.hints = &hints}).problem);
  };
  while (plans() > most_plans) {
    pin(random() % ops);
  }
  return hints;
}

}  // namespace hidup
