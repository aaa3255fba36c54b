#include "program/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "core/check.h"
#include "sharding/stages.h"

namespace hidup {
namespace {

// The rounds of a layer's experts.
struct Rounds {
  int64_t rows = 0;  // of an expert and sequence in a round
  int64_t count = 1;
};

Rounds rounds_of(const Graph& graph, const Op& pack) {
  const Tensor& counts = graph.tensor(pack.inputs[2]);
  if (!counts.slack) {
    return {};
  }
  const Shape& routing = graph.tensor(pack.inputs[1]).shape;
  const int64_t rows = rows_in_round(routing, counts.shape[0], *counts.slack);
  return {rows, (routing[1] + rows - 1) / rows};
}

// Returns the rows of each expert in the round over those in the packed rows' shape.
ExpectedLoads loads_in_round(const Graph& graph, const Op& pack, const RoundAttributes& round,
                             int64_t shape_rows) {
  const Shape& routing = graph.tensor(pack.inputs[1]).shape;
  const Tensor& counts = graph.tensor(pack.inputs[2]);
  const auto experts = static_cast<size_t>(counts.shape[0]);
  const double mean = static_cast<double>(routing[1] * routing[2]) / static_cast<double>(experts);
  std::vector<double> loads;
  for (size_t e = 0; e < experts; ++e) {
    const double rows = (counts.loads == nullptr ? 1.0 : (*counts.loads)[e]) * mean;
    const double taken =
        std::clamp(rows - static_cast<double>(round.first), 0.0, static_cast<double>(round.rows));
    loads.push_back(taken / static_cast<double>(shape_rows));
  }
  return std::make_shared<const std::vector<double>>(std::move(loads));
}

// Returns the operation's rule with that output on the axis.
Rule rule_for(const Graph& graph, OpId op, const Axis& axis, const Placement& output) {
  for (Rule& rule : rules_of(graph, op)) {
    const bool stamped = takes_share(rule, axis, output.share);
    Rule found = stamped ? with_share(std::move(rule), axis, output.share) : std::move(rule);
    if (found.output == output) {
      return found;
    }
  }
  fail(ExitCode::internal, "{} cannot leave {}", graph.op_name(op), to_string(output));
}

// Copies a model operation by operation. Consecutive operations on packed rows of one stage form a
// run, which is written once per round.
class RoundWriter {
 public:
  RoundWriter(const Graph& graph, const Strategy& strategy)
      : graph_(graph),
        strategy_(strategy),
        chunk_of_(stages_of(graph, strategy).chunk_of),
        now_(graph.tensors().size(), -1),
        model_{Graph(graph.name()), strategy, {}} {
    model_.strategy.ops.clear();
    model_.strategy.stages.clear();
  }

  RoundsModel write() {
    for (TensorId id = 0; id < static_cast<TensorId>(now_.size()); ++id) {
      const Tensor& tensor = graph_.tensor(id);
      if (tensor.role == Tensor::Role::parameter) {
        now_of(id) = model_.graph.add_parameter(tensor.name, tensor.shape, tensor.init,
                                                tensor.decay, tensor.dtype);
      } else if (tensor.role == Tensor::Role::input) {
        now_of(id) = model_.graph.add_input(tensor.name, tensor.dtype, tensor.shape);
      } else {
        add(tensor.producer);
      }
    }
    end_run();
    move_names();
    return std::move(model_);
  }

 private:
  TensorId& now_of(TensorId id) { return now_[static_cast<size_t>(id)]; }
  int chunk_of(OpId op) const { return chunk_of_[static_cast<size_t>(op)]; }

  // Returns the counts of the packed rows that the operation makes or reads; -1: none.
  TensorId counts_of(OpId id) const {
    const Op& op = graph_.op(id);
    const TensorId counts = graph_.tensor(op.output).counts;
    return counts >= 0 ? counts : graph_.tensor(op.inputs[0]).counts;
  }

  void add(OpId op) {
    const TensorId counts = counts_of(op);
    const bool joins = !run_.empty() && counts == counts_of(run_.front()) &&
                       chunk_of(op) == chunk_of(run_.front());
    if (!joins) {
      end_run();
    }
    if (counts < 0) {
      copy(op, {}, 0);
    } else {
      run_.push_back(op);
    }
  }

  void end_run() {
    if (run_.empty()) {
      return;
    }
    const TensorId counts = counts_of(run_.front());
    if (graph_.op(run_.front()).kind == OpKind::expert_pack) {
      rounds_[counts] = rounds_of(graph_, graph_.op(run_.front()));
    }
    const Rounds rounds = rounds_.at(counts);
    for (int64_t round = 0; round < rounds.count; ++round) {
      for (const OpId op : run_) {
        write(op, rounds, round);
      }
    }
    run_.clear();
  }

  void write(OpId id, const Rounds& rounds, int64_t round) {
    const Op& op = graph_.op(id);
    if (op.kind == OpKind::expert_pack && rounds.count > 1) {
      count(id, rounds, round);
    }
    const TensorId before = now_of(op.output);
    copy(id, rounds, round);
    if (op.kind == OpKind::expert_pack && rounds.count > 1) {
      expect_in_round(op, rounds, round);
    }
    if (op.kind != OpKind::expert_unpack) {
      of_round_[{op.output, round}] = now_of(op.output);
      model_.strategy.ops.back().recompute |= round > 0;
    } else if (round > 0) {
      add_to(before, id);
    }
  }

  // Writes the operation of a round.
  void copy(OpId id, const Rounds& rounds, int64_t round) {
    const Op& op = graph_.op(id);
    std::vector<TensorId> inputs;
    for (const TensorId input : op.inputs) {
      const auto found = of_round_.find({input, round});
      inputs.push_back(found == of_round_.end() ? now_of(input) : found->second);
    }
    OpAttributes attributes = op.attributes;
    if (auto* packs = std::get_if<PackAttributes>(&attributes); packs && rounds.count > 1) {
      packs->round = {round * rounds.rows, rounds.rows};
    }
    const Tensor& written = graph_.tensor(op.output);
    now_of(op.output) = write_op(op.kind, name_of(id, round), inputs, attributes, id);
    model_.graph.expect(now_of(op.output), written.loads, written.slack);
    model_.strategy.ops.push_back(strategy_.ops[static_cast<size_t>(id)]);
  }

  // Writes the counts of a round, on the ranks that know all counts.
  void count(OpId pack, const Rounds& rounds, int64_t round) {
    const TensorId counts = graph_.op(pack).inputs[2];
    const TensorId written =
        write_op(OpKind::round_counts, name_of(graph_.tensor(counts).producer, round) + ".in_round",
                 {now_of(counts)}, RoundAttributes{round * rounds.rows, rounds.rows}, pack);
    of_round_[{counts, round}] = written;
    Layout whole(strategy_.mesh.size(), Placement::replicate());
    if (const auto& schedule = strategy_.schedule) {
      const Rule& packs = strategy_.ops[static_cast<size_t>(pack)].rules[schedule->axis];
      whole[schedule->axis] =
          Placement::replicate(support_of(strategy_.mesh[schedule->axis], packs.output.share));
    }
    add_rules(whole);
  }

  // The packed rows written last are of the round.
  void expect_in_round(const Op& pack, const Rounds& rounds, int64_t round) {
    const Shape& shape = model_.graph.tensor(now_of(pack.output)).shape;
    model_.graph.expect(of_round_.at({pack.inputs[2], round}),
                        loads_in_round(graph_, pack, {round * rounds.rows, rounds.rows}, shape[2]),
                        {});
  }

  // Adds the tokens' results of a round, which the last operation wrote, to those before it.
  void add_to(TensorId before, OpId unpack) {
    TensorId& sum = now_of(graph_.op(unpack).output);
    sum = write_op(OpKind::add, model_.graph.tensor(sum).name + ".sum", {before, sum}, {}, unpack);
    add_rules(output_layout(strategy_.ops[static_cast<size_t>(unpack)]));
  }

  std::string name_of(OpId id, int64_t round) const {
    return graph_.op_name(id) + suffix_of_round({round, 1});
  }

  TensorId write_op(OpKind kind, const std::string& name, const std::vector<TensorId>& inputs,
                    const OpAttributes& attributes, OpId original) {
    model_.original_ops.push_back(original);
    return model_.graph.add_op(kind, name, inputs, attributes);
  }

  // Adds the rules with that output to the operation written last.
  void add_rules(const Layout& output) {
    OpStrategy rules;
    for (size_t axis = 0; axis < output.size(); ++axis) {
      rules.rules.push_back(rule_for(model_.graph, static_cast<OpId>(model_.strategy.ops.size()),
                                     strategy_.mesh[axis], output[axis]));
    }
    model_.strategy.ops.push_back(std::move(rules));
  }

  // Gives the strategy the model's numbers of tensors and operations.
  void move_names() {
    for (ParameterStrategy& parameter : model_.strategy.parameters) {
      parameter.tensor = now_of(parameter.tensor);
    }
    if (model_.strategy.schedule) {
      for (OpId& cut : model_.strategy.schedule->cuts) {
        const auto written = std::ranges::find(model_.original_ops, cut);
        cut = static_cast<OpId>(written - model_.original_ops.begin());
      }
    }
  }

  const Graph& graph_;
  const Strategy& strategy_;
  const std::vector<int> chunk_of_;
  std::vector<OpId> run_;              // not written yet
  std::map<TensorId, Rounds> rounds_;  // by the counts of the rows
  // Per tensor of the graph: the tensor that now has its content, and those of single rounds.
  std::vector<TensorId> now_;
  std::map<std::pair<TensorId, int64_t>, TensorId> of_round_;
  RoundsModel model_;
};

}  // namespace

int64_t rows_in_round(const Shape& routing, int64_t experts, double slack) {
  const auto choices = static_cast<double>(routing[1] * routing[2]);
  const double rows = std::ceil(slack * choices / static_cast<double>(experts));
  return std::min(routing[1], static_cast<int64_t>(rows));
}

RoundAttributes round_of(const Graph& graph, TensorId counts) {
  const auto* round =
      std::get_if<RoundAttributes>(&graph.op(graph.tensor(counts).producer).attributes);
  return round == nullptr ? RoundAttributes{} : *round;
}

TensorId all_counts(const Graph& graph, TensorId counts) {
  return round_of(graph, counts).rows > 0 ? graph.op(graph.tensor(counts).producer).inputs[0]
                                          : counts;
}

std::string suffix_of_round(const RoundAttributes& round) {
  return round.first == 0 ? "" : fmt::format(".round{}", round.first / round.rows);
}

std::optional<RoundsModel> with_rounds(const Graph& graph, const Strategy& strategy) {
  const bool is_short = std::ranges::any_of(graph.ops(), [&](const Op& op) {
    return op.kind == OpKind::expert_pack && rounds_of(graph, op).count > 1;
  });
  return is_short ? std::optional(RoundWriter(graph, strategy).write()) : std::nullopt;
}

}  // namespace hidup
