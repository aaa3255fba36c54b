#include "sharding/rules.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/check.h"
#include "graph/operation.h"

namespace hidup {
namespace {

const Placement kWhole = Placement::replicate();
const Placement kSum = Placement::partial();

Placement cut(size_t dim) {
  return Placement::shard(static_cast<int>(dim));
}

class RuleMaker {
 public:
  RuleMaker(const Graph& graph, OpId op)
      : graph_(graph), op_(graph.op(op)), rules_{replicate_rule(graph, op)} {}

  std::vector<Rule> run() {
    switch (op_.kind) {
      case OpKind::embedding:
        embedding();
        break;
      case OpKind::matmul:
      case OpKind::wide_matmul:
        matmul();
        break;
      case OpKind::bias:
        bias();
        break;
      case OpKind::positions:
      case OpKind::relu:
      case OpKind::gelu:
      case OpKind::silu:
      case OpKind::swiglu:
        element_by_element();
        break;
      case OpKind::rotary:
        rotary();
        break;
      case OpKind::prepend:
        add("batch", {cut(0), kWhole}, cut(0), {cut(0), kSum});
        add("column", {cut(2), cut(0)}, cut(2), {cut(2), cut(0)});
        linear();
        break;
      case OpKind::first:
        first();
        break;
      case OpKind::dropout:
      case OpKind::add:
        element_by_element();
        linear();
        break;
      case OpKind::layer_norm:
      case OpKind::rms_norm:
        norm();
        break;
      case OpKind::attention:
        add("batch", {cut(0)}, cut(0), {cut(0)}, cut(0));
        add("head", {cut(3)}, cut(2), {cut(3)}, cut(1));
        break;
      case OpKind::grouped_attention:
        grouped_attention();
        break;
      case OpKind::cross_entropy:
        cross_entropy();
        break;
      case OpKind::route:
        add("batch", {cut(0)}, cut(0), {cut(0)});
        break;
      case OpKind::route_biased:
        add("batch", {cut(0), kWhole}, cut(0), {cut(0), kWhole});
        break;
      case OpKind::route_chosen:
        add("batch", {cut(0), cut(0)}, cut(0), {cut(0), kWhole});
        break;
      case OpKind::gate:
        add("batch", {cut(0), cut(0)}, cut(0), {cut(0), kWhole});
        add("sequence", {cut(1), cut(1)}, cut(1), {cut(1), kWhole});
        break;
      case OpKind::expert_counts:
        add("batch", {cut(0)}, cut(1), {kWhole});
        add("expert", {kWhole}, cut(0), {kWhole});
        break;
      case OpKind::dispatch:
        dispatch();
        break;
      case OpKind::expert_matmul:
        expert_matmul();
        break;
      case OpKind::expert_bias:
        expert_bias();
        break;
      case OpKind::combine:
        combine();
        break;
      case OpKind::round_counts:
        add("expert", {cut(0)}, cut(0), {kWhole});
        add("batch", {cut(1)}, cut(1), {kWhole});
        break;
      case OpKind::expert_pack:
        expert_pack();
        break;
      case OpKind::expert_unpack:
        expert_unpack();
        break;
    }
    std::erase_if(rules_, [this](const Rule& rule) { return sums_data(rule); });
    return std::move(rules_);
  }

 private:
  using Placements = std::vector<Placement>;

  void add(const std::string& name, const Placements& inputs, Placement output,
           const Placements& input_gradients, Placement saved = kWhole) {
    rules_.push_back({name, inputs, output, input_gradients, saved});
  }

  // Returns true for a rule with summands of a step's inputs, which are data that no rank sums.
  bool sums_data(const Rule& rule) const {
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      if (rule.inputs[i].is_partial() && graph_.tensor(op_.inputs[i]).role == Tensor::Role::input) {
        return true;
      }
    }
    return false;
  }

  size_t dims(size_t input) const { return graph_.tensor(op_.inputs[input]).shape.size(); }
  // Returns the name of a dimension of the output.
  const std::string& dim_name(size_t dim) const { return graph_.tensor(op_.output).dims[dim]; }
  size_t output_dims() const { return graph_.tensor(op_.output).shape.size(); }

  // Adds rules that cut all activations alike. Nothing cuts between packed rows of one sequence.
  void element_by_element() {
    constexpr size_t kPackedRows = 2;
    const bool packed = graph_.tensor(op_.output).counts >= 0;
    for (size_t d = 0; d < output_dims(); ++d) {
      if (packed && d == kPackedRows) {
        continue;
      }
      const Placements all(op_.inputs.size(), cut(d));
      add(dim_name(d), all, cut(d), all);
    }
  }

  // Adds the rule of linear operations: f(sum) is the sum of f(summand), and the gradient of every
  // summand is that of the sum.
  void linear() {
    add("partial", Placements(op_.inputs.size(), kSum), kSum,
        Placements(op_.inputs.size(), kWhole));
  }

  void first() {
    add("batch", {cut(0)}, cut(0), {cut(0)});
    add("sequence", {cut(1)}, kSum, {cut(1)});  // ranks without the first position add zeros
    add("column", {cut(2)}, cut(1), {cut(2)});
    linear();
  }

  void embedding() {
    const size_t column = output_dims() - 1;
    for (size_t d = 0; d < column; ++d) {
      add(dim_name(d), {cut(d), kWhole}, cut(d), {kWhole, kSum});
    }
    add("column", {kWhole, cut(1)}, cut(column), {kWhole, cut(1)});
    // A rank has some rows of the table; tokens of other rows give zeros.
    add("vocabulary", {kWhole, cut(0)}, kSum, {kWhole, cut(0)});
  }

  void matmul() {
    const auto& matmul = op_.as<MatmulAttributes>();
    const auto contract = static_cast<size_t>(matmul.contract);
    const size_t leading = dims(0) - contract;
    const size_t first_row =
        matmul.transposed ? dims(1) - contract : 0;  // the weight's first summed dimension
    const size_t first_column = matmul.transposed ? 0 : contract;
    for (size_t d = 0; d < leading; ++d) {
      add(dim_name(d), {cut(d), kWhole}, cut(d), {cut(d), kSum});
    }
    for (size_t c = 0; c < contract; ++c) {
      add(contract == 1 ? "row" : fmt::format("row({})", c), {cut(leading + c), cut(first_row + c)},
          kSum, {cut(leading + c), cut(first_row + c)});
    }
    for (size_t d = leading; d < output_dims(); ++d) {
      const size_t of_weight = first_column + d - leading;
      add(dim_name(d), {kWhole, cut(of_weight)}, cut(d), {kSum, cut(of_weight)});
    }
    add("partial", {kSum, kWhole}, kSum, {kWhole, kSum});
    add("factors", {cut(0), kWhole}, cut(0), {cut(0), kWhole});
    rules_.back().factors_of = 1;
  }

  void bias() {
    const size_t leading = dims(0) - dims(1);
    for (size_t d = 0; d < output_dims(); ++d) {
      if (d < leading) {
        add(dim_name(d), {cut(d), kWhole}, cut(d), {cut(d), kSum});
      } else {
        add(dim_name(d), {cut(d), cut(d - leading)}, cut(d), {cut(d), cut(d - leading)});
      }
    }
    linear();
  }

  void norm() {
    for (size_t d = 0; d + 1 < output_dims(); ++d) {
      Placements inputs(op_.inputs.size(), kWhole);
      Placements gradients(op_.inputs.size(), kSum);
      inputs[0] = cut(d);
      gradients[0] = cut(d);
      add(dim_name(d), inputs, cut(d), gradients, cut(d));
    }
  }

  // q is [batch, sequence, kv_heads, group, head]. Ranks with cut groups sum the gradients of k and
  // v.
  void grouped_attention() {
    add("batch", {cut(0), cut(0), cut(0)}, cut(0), {cut(0), cut(0), cut(0)}, cut(0));
    add("kv_head", {cut(2), cut(2), cut(2)}, cut(2), {cut(2), cut(2), cut(2)}, cut(1));
    add("head", {cut(3), kWhole, kWhole}, cut(3), {cut(3), kSum, kSum}, cut(2));
  }

  // Rotary rules keep pairs of channels together.
  void rotary() {
    for (size_t d = 0; d + 1 < output_dims(); ++d) {
      add(dim_name(d), {cut(d)}, cut(d), {cut(d)});
    }
    linear();
  }

  void cross_entropy() {
    const size_t classes = dims(0) - 1;
    for (size_t d = 0; d < classes; ++d) {  // the loss is a mean: every rank adds its rows
      add(graph_.tensor(op_.inputs[0]).dims[d], {cut(d), cut(d)}, kSum, {cut(d), kWhole}, cut(d));
    }
    // This rule exchanges only sums over the classes, never logits.
    add("vocabulary", {cut(classes), kWhole}, kWhole, {cut(classes), kWhole});
  }

  // Buffers are [experts, batch, capacity, width], weights [experts, width, width].

  void dispatch() {
    add("batch", {cut(0), cut(0)}, cut(1), {cut(0), kWhole});
    add("sequence", {cut(1), cut(1)}, kSum, {cut(1), kWhole});  // each rank fills its tokens' slots
    add("expert", {kWhole, kWhole}, cut(0), {kSum, kWhole});
    add("column", {cut(2), kWhole}, cut(3), {cut(2), kWhole});
    add("partial", {kSum, kWhole}, kSum, {kWhole, kWhole});
  }

  void expert_matmul() {
    add("batch", {cut(1), kWhole, cut(1)}, cut(1), {cut(1), kSum, kWhole});
    add("expert", {cut(0), cut(0), cut(0)}, cut(0), {cut(0), cut(0), kWhole});
    add("row", {cut(3), cut(1), kWhole}, kSum, {cut(3), cut(1), kWhole});
    add("column", {kWhole, cut(2), kWhole}, cut(3), {kSum, cut(2), kWhole});
    add("partial", {kSum, kWhole, kWhole}, kSum, {kWhole, kSum, kWhole});
  }

  void expert_bias() {
    add("batch", {cut(1), kWhole, cut(1)}, cut(1), {cut(1), kSum, kWhole});
    add("expert", {cut(0), cut(0), cut(0)}, cut(0), {cut(0), cut(0), kWhole});
    add("column", {cut(3), cut(1), kWhole}, cut(3), {cut(3), cut(1), kWhole});
    add("partial", {kSum, kSum, kWhole}, kSum, {kWhole, kWhole, kWhole});
  }

  void combine() {
    add("batch", {cut(1), cut(0), cut(0)}, cut(0), {cut(1), kWhole, cut(0)});
    add("sequence", {kWhole, cut(1), cut(1)}, cut(1), {kSum, kWhole, cut(1)});
    add("expert", {cut(0), kWhole, kWhole}, kSum, {cut(0), kWhole, kSum});
    add("column", {cut(3), kWhole, kWhole}, cut(2), {cut(3), kWhole, kSum});
    add("partial", {kSum, kWhole, kWhole}, kSum, {kWhole, kWhole, kSum});
  }

  void expert_pack() {
    add("batch", {cut(0), cut(0), cut(1)}, cut(1), {cut(0), kWhole, kWhole});
    add("sequence", {cut(1), cut(1), kWhole}, kSum, {cut(1), kWhole, kWhole});
    add("expert", {kWhole, kWhole, cut(0)}, cut(0), {kSum, kWhole, kWhole});
    add("column", {cut(2), kWhole, kWhole}, cut(3), {cut(2), kWhole, kWhole});
    add("partial", {kSum, kWhole, kWhole}, kSum, {kWhole, kWhole, kWhole});
  }

  void expert_unpack() {
    add("batch", {cut(1), cut(0), cut(0), cut(1)}, cut(0), {cut(1), kWhole, cut(0), kWhole});
    add("sequence", {kWhole, cut(1), cut(1), kWhole}, cut(1), {kSum, kWhole, cut(1), kWhole});
    add("expert", {cut(0), kWhole, kWhole, cut(0)}, kSum, {cut(0), kWhole, kSum, kWhole});
    add("column", {cut(3), kWhole, kWhole, kWhole}, cut(2), {cut(3), kWhole, kSum, kWhole});
    add("partial", {kSum, kWhole, kWhole, kWhole}, kSum, {kWhole, kWhole, kSum, kWhole});
  }

  const Graph& graph_;
  const Op& op_;
  std::vector<Rule> rules_;
};

}  // namespace

Placement gradient_of(const Placement& placement) {
  return placement.is_partial() ? Placement::replicate(placement.share) : placement;
}

Layout gradient_of(const Layout& layout) {
  Layout gradient;
  for (const Placement& placement : layout) {
    gradient.push_back(gradient_of(placement));
  }
  return gradient;
}

std::vector<Rule> rules_of(const Graph& graph, OpId op) {
  return RuleMaker(graph, op).run();
}

std::string to_string(const Rule& rule) {
  return rule.name + to_string(rule.share);
}

bool takes_share(const Rule& rule, const Axis& axis, ShareNumber share) {
  return share.is_equal() || rule.output.is_shard() ||
         std::ranges::any_of(rule.inputs, &Placement::is_shard) ||
         !support_of(axis, share).is_equal();
}

Rule with_share(Rule rule, const Axis& axis, ShareNumber share) {
  check(takes_share(rule, axis, share), "{} has no parts", rule.name);
  rule.share = share;
  const auto stamp = [&](Placement& placement) { placement = with_share(placement, axis, share); };
  std::ranges::for_each(rule.inputs, stamp);
  std::ranges::for_each(rule.input_gradients, stamp);
  stamp(rule.output);
  stamp(rule.saved);
  return rule;
}

Rule replicate_rule(const Graph& graph, OpId op) {
  const std::vector<Placement> all(graph.op(op).inputs.size(), kWhole);
  return {"replicate", all, kWhole, all, kWhole};
}

}  // namespace hidup
