#include "search/estimate/reduced_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/key.h"
#include "program/program.h"
#include "search/dp/repeats.h"

namespace hidup {
namespace {

// The equal blocks that remain: two at each end, as the first and the last have other neighbours.
// The further reduced graphs have one block more. 2 and 6 give the same predictions.
constexpr size_t kKept = 4;
constexpr size_t kMore = 5;
// The fewest operations to remove. With 100, a graph of 12 layers counts as deep and gets no
// simulated variations: steps are up to 1.4 % slower. 400 changes nothing.
constexpr size_t kWorth = 200;

size_t index(int32_t id) {
  return static_cast<size_t>(id);
}

// Removes operations.
class GraphReducer {
 public:
  GraphReducer(const Graph& graph, const std::vector<uint64_t>& signatures)
      : graph_(graph), signatures_(signatures) {}

  // Returns none where a remaining operation would have other inputs.
  std::optional<ReducedGraph> run(const std::vector<Repeat>& left_out, double weight) {
    find_stand_ins(left_out);
    ReducedGraph reduced{.graph = Graph(graph_.name()), .weight = weight};
    std::vector<TensorId> there(graph_.tensors().size(), -1);
    const std::vector<bool> needed = needed_parameters();
    for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
      const Tensor& tensor = graph_.tensor(id);
      if (tensor.role == Tensor::Role::parameter && needed[index(id)]) {
        there[index(id)] = reduced.graph.add_parameter(tensor.name, tensor.shape, tensor.init,
                                                       tensor.decay, tensor.dtype);
      } else if (tensor.role == Tensor::Role::input) {
        there[index(id)] = reduced.graph.add_input(tensor.name, tensor.dtype, tensor.shape);
      } else if (tensor.role == Tensor::Role::activation && is_kept(tensor.producer)) {
        const Op& op = graph_.op(tensor.producer);
        std::vector<TensorId> inputs;
        for (const TensorId input : op.inputs) {
          inputs.push_back(there[index(read_instead(input))]);
          if (inputs.back() < 0 || !is_alike(input)) {
            return std::nullopt;
          }
        }
        there[index(id)] = reduced.graph.add_op(op.kind, tensor.name, inputs, op.attributes);
        reduced.graph.expect(there[index(id)], tensor.loads, tensor.slack);
        reduced.ops.push_back(tensor.producer);
      }
      if (there[index(id)] >= 0) {
        reduced.tensors.push_back(id);
      }
    }
    std::vector<OpId> number(stand_in_.size(), -1);
    for (size_t op = 0; op < reduced.ops.size(); ++op) {
      number[index(reduced.ops[op])] = static_cast<OpId>(op);
    }
    for (const size_t kept : stand_in_) {
      reduced.stand_ins.push_back(number[kept]);
    }
    return reduced;
  }

 private:
  // Finds the operation read in place of each; itself where it remains.
  void find_stand_ins(const std::vector<Repeat>& left_out) {
    stand_in_.resize(graph_.ops().size());
    size_t op = 0;
    for (const Repeat& repeat : left_out) {
      for (; op < repeat.begin; ++op) {
        stand_in_[op] = op;
      }
      for (; op < repeat.begin + repeat.period * repeat.count; ++op) {
        stand_in_[op] = stand_in_[op - repeat.period];
      }
    }
    for (; op < stand_in_.size(); ++op) {
      stand_in_[op] = op;
    }
  }
  bool is_kept(OpId op) const { return stand_in_[index(op)] == index(op); }

  std::vector<bool> needed_parameters() const {
    std::vector<bool> needed(graph_.tensors().size());
    for (size_t op = 0; op < graph_.ops().size(); ++op) {
      for (const TensorId input : graph_.ops()[op].inputs) {
        needed[index(input)] = needed[index(input)] || stand_in_[op] == op;
      }
    }
    return needed;
  }

  TensorId read_instead(TensorId id) const {
    const OpId producer = graph_.tensor(id).producer;
    return producer < 0 ? id : graph_.ops()[stand_in_[index(producer)]].output;
  }
  bool is_alike(TensorId id) const {
    const OpId producer = graph_.tensor(id).producer;
    return producer < 0 || signatures_[index(producer)] == signatures_[stand_in_[index(producer)]];
  }

  const Graph& graph_;
  const std::vector<uint64_t>& signatures_;
  std::vector<size_t> stand_in_;
};

}  // namespace

std::vector<ReducedGraph> reduced_graphs_of(const Graph& graph,
                                            const std::vector<uint64_t>& signatures) {
  std::vector<Repeat> repeats = find_repeats(signatures);
  std::erase_if(repeats, [](const Repeat& repeat) {
    return repeat.count <= kMore || (repeat.count - kMore) * repeat.period < kWorth;
  });
  // The first reduced graph has kKept blocks of every repeat, each further one kMore blocks of one.
  const auto left_out = [](const Repeat& repeat, size_t kept) {
    return Repeat{repeat.begin + kKept / 2 * repeat.period, repeat.period, repeat.count - kept};
  };
  std::vector<Repeat> all;
  all.reserve(repeats.size());
  for (const Repeat& repeat : repeats) {
    all.push_back(left_out(repeat, kKept));
  }
  std::vector<ReducedGraph> reduced_graphs;
  const auto add = [&](const std::vector<Repeat>& without, double weight) {
    std::optional<ReducedGraph> reduced = GraphReducer(graph, signatures).run(without, weight);
    if (reduced) {
      reduced_graphs.push_back(*std::move(reduced));
    }
  };
  if (repeats.empty()) {
    return {};
  }
  add(all, 1.0);
  for (size_t r = 0; r < repeats.size() && !reduced_graphs.empty(); ++r) {
    std::vector<Repeat> fewer = all;
    fewer[r] = left_out(repeats[r], kMore);
    const double weight =
        static_cast<double>(repeats[r].count - kKept) / static_cast<double>(kMore - kKept);
    add(fewer, weight);
    reduced_graphs[0].weight -= weight;
  }
  return reduced_graphs.size() == repeats.size() + 1 ? std::move(reduced_graphs)
                                                     : std::vector<ReducedGraph>{};
}

std::vector<ReducedGraph> reduced_graphs_of(const Graph& graph, std::vector<uint64_t> signatures,
                                            const std::vector<int>& choices) {
  for (size_t op = 0; op < signatures.size(); ++op) {
    signatures[op] = combined(signatures[op], static_cast<uint64_t>(choices[op]));
  }
  return reduced_graphs_of(graph, signatures);
}

namespace {

MapKey key_of(const Graph& graph, const Op& op) {
  MapKey key;
  key.add(op.kind);
  for_each_attribute(op.attributes, [&](std::string_view, double value) { key.add(value); });
  const auto add = [&](TensorId id) {
    const Tensor& tensor = graph.tensor(id);
    key.add(tensor.dtype);
    key.add(tensor.role);
    key.add(tensor.shape.size());
    for (const int64_t extent : tensor.shape) {
      key.add(extent);
    }
    add_packed_rows(key, packed_rows_of(graph, id));
  };
  for (const TensorId input : op.inputs) {
    add(input);
  }
  add(op.output);
  return key;
}

const ParameterStrategy* stored(const Strategy& strategy, TensorId id) {
  const auto at = std::ranges::lower_bound(strategy.parameters, id, {}, &ParameterStrategy::tensor);
  return at == strategy.parameters.end() || at->tensor != id ? nullptr : &*at;
}

void add_choices(MapKey& key, const Op& op, const OpStrategy& op_strategy,
                 const Strategy& strategy) {
  for (const Rule& rule : op_strategy.rules) {
    key.add(to_string(rule));
  }
  key.add(op_strategy.recompute);
  for (const TensorId input : op.inputs) {
    if (const ParameterStrategy* parameter = stored(strategy, input)) {
      key.add(to_string(parameter->storage));
      key.add(to_string(parameter->optimizer_state));
      key.add(parameter->residency);
    }
  }
}

}  // namespace

std::vector<uint64_t> signatures_of(const Graph& graph, const Strategy* strategy) {
  Problem problem;  // only the fields that signatures need
  std::unordered_map<std::string, int> kinds;
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    const Op& self = graph.ops()[op];
    MapKey key = key_of(graph, self);
    if (strategy != nullptr) {
      add_choices(key, self, strategy->ops[op], *strategy);
    }
    SearchOp& alike = problem.ops.emplace_back();
    alike.kind = kinds.try_emplace(key.take(), static_cast<int>(kinds.size())).first->second;
    for (const TensorId input : self.inputs) {
      if (graph.tensor(input).producer >= 0) {
        alike.inputs.push_back(graph.tensor(input).producer);
      }
    }
  }
  return signatures_of(problem);
}

Strategy extended_to(const Graph& graph, const ReducedGraph& reduced, const Strategy& strategy) {
  Strategy whole{.name = strategy.name,
                 .mesh = strategy.mesh,
                 .microbatches = strategy.microbatches,
                 .accumulate = strategy.accumulate,
                 .defer_gradients = strategy.defer_gradients};
  std::map<TensorId, ParameterStrategy> parameters;
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    const OpId stand_in = reduced.stand_ins[op];
    whole.ops.push_back(strategy.ops[index(stand_in)]);
    const std::vector<TensorId>& inputs = graph.ops()[op].inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (const ParameterStrategy* parameter =
              stored(strategy, reduced.graph.op(stand_in).inputs[i])) {
        parameters[inputs[i]] = *parameter;
        parameters[inputs[i]].tensor = inputs[i];
      }
    }
  }
  for (const auto& [id, parameter] : parameters) {
    whole.parameters.push_back(parameter);
  }
  return whole;
}

Strategy restricted_to(const Strategy& strategy, const ReducedGraph& reduced) {
  Strategy part{.name = strategy.name,
                .mesh = strategy.mesh,
                .microbatches = strategy.microbatches,
                .accumulate = strategy.accumulate,
                .defer_gradients = strategy.defer_gradients};
  part.ops.reserve(reduced.ops.size());
  for (const OpId op : reduced.ops) {
    part.ops.push_back(strategy.ops[index(op)]);
  }
  for (TensorId id = 0; id < static_cast<TensorId>(reduced.tensors.size()); ++id) {
    if (const ParameterStrategy* parameter = stored(strategy, reduced.tensors[index(id)])) {
      part.parameters.push_back(*parameter);
      part.parameters.back().tensor = id;
    }
  }
  return part;
}

Problem restricted_to(const Problem& problem, const ReducedGraph& reduced) {
  Problem part = problem;
  part.ops.clear();
  for (const Op& op : reduced.graph.ops()) {
    SearchOp self{.kind = problem.ops[index(reduced.ops[part.ops.size()])].kind};
    for (const TensorId input : op.inputs) {
      if (reduced.graph.tensor(input).producer >= 0) {
        self.inputs.push_back(reduced.graph.tensor(input).producer);
      }
    }
    part.ops.push_back(std::move(self));
  }
  return part;
}

}  // namespace hidup
