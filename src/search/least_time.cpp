#include "search/least_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/operation.h"

namespace hidup {
namespace {

void add(std::string& key, const Layout& layout) {
  for (const Placement& placement : layout) {
    key += static_cast<char>(placement.kind);
    key += static_cast<char>(placement.dim);
    key += to_string(placement.share) + ",";
  }
}

}  // namespace

LeastTime::LeastTime(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                     int64_t bucket_bytes)
    : graph_(graph),
      costs_(costs),
      rules_(graph, mesh, costs, 1, bucket_bytes),
      readers_(graph.tensors().size(), {-1, 0}) {
  // Which operations are alike does not depend on the mesh. With one rank a choice each is costed.
  Mesh alone = mesh;
  for (Axis& axis : alone) {
    axis = {.name = axis.name};
  }
  const Problem problem =
      build_problem(graph, alone, costs,
                    {.bucket_bytes = bucket_bytes, .storages = StorageChoices::as_used})
          .problem;
  for (OpId op = 0; op < static_cast<OpId>(problem.ops.size()); ++op) {
    const auto kind = static_cast<size_t>(problem.ops[static_cast<size_t>(op)].kind);
    kinds_.push_back(static_cast<int>(kind));
    tensors_.push_back(problem.kinds[kind].tensor);
    for (size_t i = 0; i < graph.op(op).inputs.size(); ++i) {
      readers_[static_cast<size_t>(graph.op(op).inputs[i])] = {op, i};
    }
  }
}

int LeastTime::number_of(const Layout& layout) {
  std::string key;
  add(key, layout);
  const auto [at, is_new] = numbers_.try_emplace(key, static_cast<int>(layouts_.size()));
  if (is_new) {
    layouts_.push_back(layout);
  }
  return at->second;
}

const LeastTime::Parts& LeastTime::parts_of(OpId op, const OpStrategy& op_strategy) {
  std::string key = fmt::format("{}", kinds_[static_cast<size_t>(op)]);
  for (const Rule& rule : op_strategy.rules) {
    key += ',';
    key += rule.name;
  }
  const auto [at, is_new] = parts_.try_emplace(std::move(key));
  Parts& parts = at->second;
  if (!is_new) {
    return parts;
  }
  const Choice choice = rules_.operation(op, op_strategy);
  parts.compute_s = choice.forward_compute_s + choice.backward_compute_s;
  parts.comm_s = choice.forward_comm_s + choice.backward_comm_s;
  parts.output = number_of(output_layout(op_strategy));
  parts.output_gradient = number_of(gradient_of(output_layout(op_strategy)));
  const Op& self = graph_.op(op);
  for (size_t i = 0; i < self.inputs.size(); ++i) {
    const Tensor& input = graph_.tensor(self.inputs[i]);
    const bool activation = input.role == Tensor::Role::activation;
    const bool has_gradient = activation && is_floating(input.dtype) && has_backward(self);
    parts.required.push_back(activation ? number_of(input_layout(op_strategy, i)) : -1);
    parts.gradients.push_back(has_gradient ? number_of(gradient_layout(op_strategy, i)) : -1);
  }
  return parts;
}

const LeastTime::Times& LeastTime::parameter(size_t input, const OpStrategy& op_strategy,
                                             const ParameterStrategy& stored) {
  const Tensor& tensor = graph_.tensor(stored.tensor);
  std::string key = fmt::format("{},", static_cast<int>(tensor.dtype));
  for (const int64_t extent : tensor.shape) {
    key += fmt::format("{},", extent);
  }
  add(key, input_layout(op_strategy, input));
  add(key, gradient_layout(op_strategy, input));
  add(key, stored.storage);
  add(key, stored.optimizer_state);
  const auto [at, is_new] = parameters_.try_emplace(std::move(key));
  if (is_new) {
    Choice choice;
    rules_.add_parameter(op_strategy, input,
                         {stored.tensor, stored.storage, stored.optimizer_state}, choice);
    at->second = {.bucket_s = choice.gather_s + choice.sync_s, .step_s = choice.step_s};
  }
  return at->second;
}

void LeastTime::add_reshard(TensorId tensor, int from, int to, Times& sum) {
  if (from == to) {
    return;
  }
  const int kind = tensors_[static_cast<size_t>(graph_.tensor(tensor).producer)];
  const auto [at, is_new] = reshards_.try_emplace({kind, from, to});
  if (is_new) {
    at->second = rules_.reshard(tensor, layouts_[static_cast<size_t>(from)],
                                layouts_[static_cast<size_t>(to)], false);
  }
  sum.compute_s += at->second.compute_s;
  sum.comm_s += at->second.comm_s;
}

LeastTime::Seconds LeastTime::seconds(const Strategy& strategy) {
  Times sum;
  std::vector<const Parts*> ops(strategy.ops.size());
  // Per tensor: the layouts in which readers have it, and leave its gradient; once each.
  std::vector<std::vector<int>> forward(graph_.tensors().size()), backward(forward.size());
  const auto is_first = [](std::vector<int>& known, int layout) {
    const bool first = layout >= 0 && std::ranges::find(known, layout) == known.end();
    if (first) {
      known.push_back(layout);
    }
    return first;
  };
  for (OpId op = 0; op < static_cast<OpId>(ops.size()); ++op) {
    const Parts& parts = parts_of(op, strategy.ops[static_cast<size_t>(op)]);
    ops[static_cast<size_t>(op)] = &parts;
    sum.compute_s += parts.compute_s;
    sum.comm_s += parts.comm_s;
    for (size_t i = 0; i < parts.required.size(); ++i) {
      const TensorId id = graph_.op(op).inputs[i];
      if (parts.required[i] < 0) {
        continue;
      }
      const Parts& writer = *ops[static_cast<size_t>(graph_.tensor(id).producer)];
      if (is_first(forward[static_cast<size_t>(id)], parts.required[i])) {
        add_reshard(id, writer.output, parts.required[i], sum);
      }
      if (is_first(backward[static_cast<size_t>(id)], parts.gradients[i])) {
        add_reshard(id, parts.gradients[i], writer.output_gradient, sum);
      }
    }
  }
  for (const ParameterStrategy& stored : strategy.parameters) {
    const auto [op, input] = readers_[static_cast<size_t>(stored.tensor)];
    if (op >= 0) {
      const Times& times = parameter(input, strategy.ops[static_cast<size_t>(op)], stored);
      sum.bucket_s += times.bucket_s;
      sum.step_s += times.step_s;
    }
  }
  const double all_comm = sum.comm_s + sum.bucket_s;
  const double both = sum.compute_s + all_comm + sum.step_s;
  const double several = std::max({sum.compute_s, all_comm, both / 2.0});
  return {.one = costs_.overhead_s() + std::max(sum.compute_s + sum.comm_s, several),
          .several = costs_.overhead_s() + several};
}

}  // namespace hidup
