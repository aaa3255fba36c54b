#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "program/lowering.h"

namespace hidup {
namespace {

using Bucket = ParameterGradients::Bucket;

class UpdatePass {
 public:
  UpdatePass(const LoweringInput& input, const Parameters& parameters,
             const ParameterGradients& gradients, const ForwardState& forward,
             ProgramBuilder& builder)
      : input_(input),
        parameters_(parameters),
        gradients_(gradients),
        forward_(forward),
        builder_(builder) {}

  void run() {
    Program& program = builder_.program();
    const ValueId squared = squared_norm();
    program.gradient_norm = add_scalar("gradient_norm", Value::Role::result, builder_.replicated());
    const ValueId scale =
        add_scalar("gradient_scale", Value::Role::activation, builder_.replicated());
    builder_
        .emit(kScope, Opcode::clip_scale, "gradient_norm", {squared},
              {program.gradient_norm, scale})
        .attributes = ClipAttributes{input_.options.clip_norm};
    Scope scope = kScope;
    scope.bucket = gradients_.bucket_count();  // numbers continue after the gradients'
    for (const ParameterGradients::Group& group : gradients_.groups()) {
      for (const Bucket& bucket : group.buckets) {
        update(scope, group, bucket, scale);
        ++scope.bucket;
      }
    }
    for (const auto& [op, load] : forward_.loads) {
      move_router_bias(op, load, scale);
    }
  }

 private:
  static constexpr Scope kScope{.phase = Phase::update, .common = true};

  // Moves a router's biases by the loads of its experts in the whole step, where they are stored.
  void move_router_bias(OpId id, ValueId load, ValueId scale) {
    const Op& op = input_.graph.op(id);
    const double speed = op.as<RouteAttributes>().speed;
    if (op.kind != OpKind::route_biased || speed == 0.0) {
      return;
    }
    const ValueId bias = parameters_.stored(op.inputs[1]);
    builder_
        .emit(kScope, Opcode::move_router_bias, builder_.value(bias).name + ".move",
              {bias, load, scale}, {bias})
        .attributes = RouterBiasAttributes{speed};
  }

  ValueId add_scalar(const std::string& name, Value::Role role, const Layout& layout) {
    return builder_.add({.name = name, .role = role, .shape = {}, .layout = layout});
  }

  // Sums the squares of all gradients. Every rank has a part of the squares of a sharded gradient,
  // and all squares of a replicated one.
  ValueId squared_norm() {
    std::vector<std::pair<Layout, ValueId>> sums;
    for (const ParameterGradients::Group& group : gradients_.groups()) {
      const Layout layout = summed_parts(group.total, builder_.mesh());
      auto sum = std::ranges::find(sums, layout, &std::pair<Layout, ValueId>::first);
      const bool accumulate = sum != sums.end();
      if (!accumulate) {
        sum = sums.insert(sums.end(), {layout, add_scalar("gradient_norm.squared",
                                                          Value::Role::activation, layout)});
      }
      ValueIds totals;
      for (const TensorId member : group.members) {
        totals.push_back(gradients_.total(member));
      }
      builder_.emit(kScope, Opcode::squared_norm, "gradient_norm.squared", totals, {sum->second})
          .accumulate = accumulate;
    }
    ValueId squared = -1;
    for (const auto& [layout, sum] : sums) {
      const ValueId whole =
          builder_.reshard(kScope, sum, builder_.replicated(), "gradient_norm", true);
      if (squared >= 0) {
        builder_.emit(kScope, Opcode::add, "gradient_norm.add", {squared, whole}, {whole});
      }
      squared = whole;
    }
    return squared;
  }

  // Updates in the optimizer state's layout. Parameters stored in another one are updated in a copy
  // and resharded back; those of 16 bits are rounded from their masters in that layout.
  void update(const Scope& scope, const ParameterGradients::Group& group, const Bucket& bucket,
              ValueId scale) {
    const std::string name = fmt::format("parameters.{}", scope.bucket);
    ValueIds stored;
    ValueIds masters;
    for (const TensorId parameter : bucket) {
      stored.push_back(parameters_.stored(parameter));
      masters.push_back(parameters_.master(parameter));
    }
    const bool rounds = masters[0] >= 0;
    const ValueIds updated =
        rounds ? masters : builder_.reshard(scope, stored, group.total, name, false);
    const ValueIds parts = rounds ? rounded(group, stored) : updated;
    ValueIds inputs;
    ValueIds outputs;
    for (size_t p = 0; p < bucket.size(); ++p) {
      const auto& [m, v] = parameters_.moments(bucket[p]);
      inputs.insert(inputs.end(), {updated[p], gradients_.total(bucket[p]), m, v});
      outputs.insert(outputs.end(), {updated[p], m, v});
      if (rounds) {
        outputs.push_back(parts[p]);
      }
    }
    inputs.push_back(scale);
    builder_
        .emit(scope, rounds ? Opcode::adam_rounded : Opcode::adam, name + ".update", inputs,
              outputs)
        .attributes = input_.options.optimizer;
    builder_.reshard(scope, parts, group.storage, name, false, stored);
  }

  // Returns the outputs of rounding: the parameters, if they have the optimizer state's layout.
  ValueIds rounded(const ParameterGradients::Group& group, const ValueIds& stored) {
    ValueIds values = stored;
    if (group.total != group.storage) {
      for (ValueId& value : values) {
        Value part = builder_.value(value);
        part.name += ".part";
        part.role = Value::Role::activation;
        part.layout = group.total;
        value = builder_.add(std::move(part));
      }
    }
    return values;
  }

  const LoweringInput& input_;
  const Parameters& parameters_;
  const ParameterGradients& gradients_;
  const ForwardState& forward_;
  ProgramBuilder& builder_;
};

}  // namespace

void write_update(const LoweringInput& input, const Parameters& parameters,
                  const ParameterGradients& gradients, const ForwardState& forward,
                  ProgramBuilder& builder) {
  UpdatePass(input, parameters, gradients, forward, builder).run();
}

}  // namespace hidup
