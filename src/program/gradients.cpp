#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/operation.h"
#include "program/lowering.h"
#include "sharding/reshard.h"

namespace hidup {

ParameterGradients::ParameterGradients(const LoweringInput& input, const Parameters& parameters,
                                       ProgramBuilder& builder)
    : input_(input), builder_(builder) {
  collect_sums();
  make_groups();
  for (const Group& group : groups_) {
    add_values(parameters, group);
  }
}

void ParameterGradients::collect_sums() {
  for (OpId op = input_.op_count() - 1; op >= 0; --op) {
    const Op& self = input_.graph.op(op);
    for (size_t i = 0; i < self.inputs.size(); ++i) {
      const TensorId id = self.inputs[i];
      if (!input_.is_learned(id) || !has_backward(self)) {
        continue;
      }
      Gradient& gradient = gradients_[id];
      gradient.completed_by = op;
      gradient.missing += input_.microbatches();
      const Layout layout = gradient_layout(input_.rules(op), i);
      if (std::ranges::find(gradient.sums, layout, &GradientSum::layout) == gradient.sums.end()) {
        gradient.sums.push_back({layout});
      }
    }
  }
}

void ParameterGradients::make_groups() {
  for (OpId op = input_.op_count() - 1; op >= 0; --op) {
    for (const TensorId id : completed_by(op)) {
      Gradient& gradient = gradients_.at(id);
      Group group{.total = input_.stored(id).optimizer_state, .storage = input_.stored(id).storage};
      for (const GradientSum& sum : gradient.sums) {
        group.sums.push_back(sum.layout);
      }
      auto found = std::ranges::find_if(
          groups_, [&](const Group& known) { return known.takes_the_way_of(group); });
      if (found == groups_.end()) {
        found = groups_.insert(groups_.end(), group);
      }
      found->members.push_back(id);
      gradient.group = static_cast<size_t>(found - groups_.begin());
    }
  }
}

// Totals lie in memory by group, in the order in which the backward pass completes them, so that a
// bucket is one piece.
void ParameterGradients::add_values(const Parameters& parameters, const Group& group) {
  const bool in_place =
      group.sums.size() == 1 && only_sums(group.sums[0], group.total, builder_.mesh());
  for (const TensorId id : group.members) {
    Gradient& gradient = gradients_.at(id);
    const Value value{.name = name(id),
                      .role = Value::Role::gradient,
                      .shape = input_.graph.tensor(id).shape,
                      .layout = in_place ? group.sums[0] : group.total,
                      .gradient_of = parameters.stored(id)};
    gradient.total = builder_.add(value);
    for (GradientSum& sum : gradient.sums) {
      sum.value =
          in_place ? gradient.total
                   : builder_.add(
                         {.name = value.name + ".sum", .shape = value.shape, .layout = sum.layout});
    }
  }
}

int64_t ParameterGradients::bytes(TensorId id) const {
  return elements(input_.graph.tensor(id).shape) * size_of(DType::f32);
}

ParameterGradients::Bucket ParameterGradients::completed_by(OpId op) const {
  Bucket complete;
  for (const TensorId id : input_.graph.op(op).inputs) {
    if (input_.is_learned(id) && gradients_.at(id).completed_by == op &&
        std::ranges::find(complete, id) == complete.end()) {
      complete.push_back(id);
    }
  }
  return complete;
}

ParameterGradients::Target ParameterGradients::target(OpId op, size_t input) {
  GradientSum& own = sum(op, input);
  return {own.value, std::exchange(own.written, true)};
}

GradientSum& ParameterGradients::sum(OpId op, size_t input) {
  Gradient& gradient = gradients_.at(input_.graph.op(op).inputs[input]);
  return *std::ranges::find(gradient.sums, gradient_layout(input_.rules(op), input),
                            &GradientSum::layout);
}

void ParameterGradients::add_pass(const Scope& scope) {
  const Op& op = input_.graph.op(scope.op);
  Bucket complete;
  for (const TensorId id : op.inputs) {
    if (input_.is_learned(id) && has_backward(op) && --gradients_.at(id).missing == 0) {
      complete.push_back(id);
    }
  }
  for (const TensorId id : complete) {
    Group& group = groups_[gradients_.at(id).group];
    group.complete.push_back(id);
    group.complete_bytes += bytes(id);
  }
  if (!complete.empty() && !input_.strategy.defer_gradients) {
    close(scope, input_.options.bucket_bytes);
  }
}

int64_t ParameterGradients::bytes_to_send(OpId op) const {
  int64_t sent = 0;
  for (const TensorId id : completed_by(op)) {
    const Group& group = groups_[gradients_.at(id).group];
    sent += reshards_locally(group.sums[0], group.total, builder_.mesh()) ? 0 : bytes(id);
  }
  return sent;
}

void ParameterGradients::close(const Scope& scope, int64_t least) {
  for (Group& group : groups_) {
    if (!group.complete.empty() && group.complete_bytes >= least) {
      close_buckets(scope, group);
    }
  }
}

// Weights passes of several chunks may complete gradients in another order than that in memory.
void ParameterGradients::close_buckets(const Scope& scope, Group& group) {
  std::vector<size_t> places;  // among the group's members
  for (const TensorId id : std::exchange(group.complete, {})) {
    const auto at = std::ranges::find(group.members, id);
    places.push_back(static_cast<size_t>(at - group.members.begin()));
  }
  group.complete_bytes = 0;
  std::ranges::sort(places);
  Bucket bucket;
  for (size_t i = 0; i < places.size(); ++i) {
    bucket.push_back(group.members[places[i]]);
    if (i + 1 == places.size() || places[i + 1] != places[i] + 1) {
      send_bucket(scope, group, std::exchange(bucket, {}));
    }
  }
}

void ParameterGradients::send_bucket(const Scope& scope, Group& group, const Bucket& bucket) {
  const std::string name = fmt::format("gradients.{}", buckets_);
  const DType sent_as = input_.options.gradients_as;
  const Scope of_bucket{
      .phase = scope.phase,
      .list = scope.list,
      .microbatch = scope.microbatch,
      .common = true,
      .bucket = buckets_++,
      .sums_sent_as = sent_as == DType::f32 ? std::nullopt : std::optional(sent_as)};
  ValueIds totals;
  for (const TensorId id : bucket) {
    totals.push_back(total(id));
  }
  for (size_t s = 0; s < group.sums.size(); ++s) {
    ValueIds sums;
    for (const TensorId id : bucket) {
      sums.push_back(gradients_.at(id).sums[s].value);
    }
    if (s == 0 && group.sums[0] != group.total) {
      builder_.reshard(of_bucket, sums, group.total, name, true,
                       sums == totals ? ValueIds{} : totals);
      continue;
    }
    const ValueIds parts = builder_.reshard(of_bucket, sums, group.total, name, true);
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p] == totals[p]) {
        continue;
      }
      if (s == 0) {
        builder_.emit(of_bucket, Opcode::slice, name, {parts[p]}, {totals[p]});
      } else {
        builder_.emit(of_bucket, Opcode::add, name, {totals[p], parts[p]}, {totals[p]});
      }
    }
  }
  group.buckets.push_back(bucket);
}

std::vector<bool> ParameterGradients::transient_sums() const {
  std::vector<bool> transient(builder_.program().values.size());
  for (const auto& [id, gradient] : gradients_) {
    for (const GradientSum& sum : gradient.sums) {
      transient[static_cast<size_t>(sum.value)] =
          sum.value != gradient.total && input_.stored(id).residency == Residency::pass;
    }
  }
  return transient;
}

void ParameterGradients::order_sums(size_t first) const {
  std::vector<Instruction>& list = builder_.program().instructions;
  const std::vector<bool> transient = transient_sums();
  std::vector<bool> begun(transient.size());
  std::map<int, ValueIds> sent;  // per bucket: the sums that it sends
  std::vector<int> order;        // of buckets
  for (size_t i = 0; i < list.size(); ++i) {
    Instruction& instruction = list[i];
    const bool sends = instruction.phase == Phase::backward && instruction.bucket >= 0;
    for (const ValueId value : instruction.inputs) {
      if (sends && transient[static_cast<size_t>(value)]) {
        sent[instruction.bucket].push_back(value);
        if (order.empty() || order.back() != instruction.bucket) {
          order.push_back(instruction.bucket);
        }
      }
    }
    for (const ValueId value : instruction.outputs) {
      if (!transient[static_cast<size_t>(value)] || begun[static_cast<size_t>(value)]) {
        continue;
      }
      begun[static_cast<size_t>(value)] = true;
      if (i >= first && order.size() >= 2) {
        instruction.after_uses_of = sent[order[order.size() - 2]];
      }
    }
  }
}

}  // namespace hidup
