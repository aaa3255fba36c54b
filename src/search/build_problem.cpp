#include "search/build_problem.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "graph/operation.h"

namespace hidup {
namespace {

// Text that is equal where what was added to it is.
class Key {
 public:
  template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void add(Number number) { text_.append(reinterpret_cast<const char*>(&number), sizeof(number)); }
  void add(const std::string& text) {
    add(text.size());
    text_ += text;
  }
  void add(const Tensor& tensor, bool names) {
    add(tensor.dtype);
    add(tensor.role);
    add(tensor.shape.size());
    for (const int64_t extent : tensor.shape) {
      add(extent);
    }
    for (size_t d = 0; names && d < tensor.dims.size(); ++d) {
      add(tensor.dims[d]);
    }
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// All combinations of a rule per axis.
std::vector<OpStrategy> all_ways(const std::vector<Rule>& rules, const Mesh& mesh) {
  std::vector<OpStrategy> ways(1);
  for (const Axis& axis : mesh) {
    std::vector<OpStrategy> longer;
    for (const OpStrategy& shorter : ways) {
      for (size_t r = 0; r < (axis.size > 1 ? rules.size() : 1); ++r) {
        longer.push_back(shorter);
        longer.back().rules.push_back(rules[r]);
      }
    }
    ways = std::move(longer);
  }
  return ways;
}

// The dimension in which a parameter is stored in parts: the first that every rank gets a part of,
// or else the longest.
Placement storage_shard(const Shape& shape, int64_t ranks) {
  const auto enough = std::ranges::find_if(shape, [&](int64_t n) { return n >= ranks; });
  const auto dim = enough != shape.end() ? enough : std::ranges::max_element(shape);
  return Placement::shard(static_cast<int>(dim - shape.begin()));
}

class Builder {
 public:
  Builder(const Graph& graph, const Mesh& mesh, const CostModel& costs, const BuildOptions& options)
      : graph_(graph),
        mesh_(mesh),
        costs_(graph, mesh, costs, options.microbatches, options.bucket_bytes),
        kept_(graph.tensors().size()),
        owner_(graph.tensors().size(), -1) {
    built_.problem.microbatches = options.microbatches;
    built_.problem.memory_limit = options.memory_limit;
    built_.problem.interference = costs_.interference();
    built_.problem.base_s = costs.overhead_s();
  }

  BuiltProblem build() {
    find_kept_and_owners();
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops().size()); ++op) {
      built_.problem.ops.push_back({kind_of(op), producers(op)});
    }
    built_.problem.layouts = static_cast<int>(layouts_.size());
    fill_tensors();
    return std::move(built_);
  }

 private:
  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  bool is_activation(TensorId id) const {
    return graph_.tensor(id).role == Tensor::Role::activation;
  }

  bool is_kept(TensorId id) const { return kept_[index(id)]; }

  // Tensors that the backward pass reads; the operation that says where a parameter is stored and
  // is charged for it. Of several that read it this is the last (the head, of an embedding too);
  // what another one needs besides, because it reads it otherwise, only the simulation sees.
  void find_kept_and_owners() {
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops().size()); ++op) {
      const Op& self = graph_.op(op);
      const OperationSpec& spec = spec_of(self.kind);
      if (spec.backward_needs_output) {
        kept_[index(self.output)] = true;
      }
      for (size_t i = 0; i < self.inputs.size(); ++i) {
        const TensorId id = self.inputs[i];
        if (i < spec.backward_needs_input.size() && spec.backward_needs_input[i]) {
          kept_[index(id)] = true;
        }
        if (graph_.tensor(id).role == Tensor::Role::parameter) {
          owner_[index(id)] = op;
        }
      }
    }
  }

  std::vector<int> producers(OpId op) const {
    std::vector<int> producers;
    for (const TensorId id : graph_.op(op).inputs) {
      if (is_activation(id)) {
        producers.push_back(graph_.tensor(id).producer);
      }
    }
    return producers;
  }

  int layout_number(const Layout& layout) {
    const auto [at, is_new] = numbers_.try_emplace(to_string(layout), layouts_.size());
    if (is_new) {
      check(layouts_.size() < kMostLayouts, "more than {} layouts on a mesh of {} axes",
            kMostLayouts, mesh_.size());
      layouts_.push_back(layout);
    }
    return static_cast<int>(at->second);
  }

  int kind_of(OpId op) {
    const Op& self = graph_.op(op);
    Key key;
    key.add(self.kind);
    for (const auto& [name, value] : self.attributes) {
      key.add(value);
    }
    for (const TensorId input : self.inputs) {
      key.add(graph_.tensor(input), true);
      key.add(owner_[index(input)] == op);
    }
    key.add(graph_.tensor(self.output), true);
    key.add(is_kept(self.output));
    const auto [at, is_new] = kinds_.try_emplace(key.take(), static_cast<int>(kinds_.size()));
    if (is_new) {
      add_kind(op);
    }
    return at->second;
  }

  void add_kind(OpId op) {
    const Op& self = graph_.op(op);
    OpChoices choices{.tensor = tensor_of(self.output)};
    std::vector<ChoiceMeaning> meanings;
    for (OpStrategy& ways : all_ways(rules_of(graph_, op), mesh_)) {
      Choice base = costs_.operation(op, ways);
      base.output = layout_number(output_layout(ways));
      if (is_kept(self.output)) {
        base.saved_bytes += costs_.bytes(self.output, output_layout(ways));
      }
      for (size_t i = 0; i < self.inputs.size(); ++i) {
        if (is_activation(self.inputs[i])) {
          const bool gives = graph_.tensor(self.inputs[i]).dtype == DType::f32 &&
                             !spec_of(self.kind).integer_output;
          base.inputs.push_back({layout_number(input_layout(ways, i)),
                                 gives ? layout_number(gradient_layout(ways, i)) : -1});
        }
      }
      for (ChoiceMeaning& meaning : storages(op, ways)) {
        Choice choice = base;
        for (size_t p = 0; p < meaning.parameters.size(); ++p) {
          costs_.add_parameter(ways, meaning.inputs[p], meaning.parameters[p], choice);
        }
        choices.choices.push_back(std::move(choice));
        meanings.push_back(std::move(meaning));
      }
    }
    built_.problem.kinds.push_back(std::move(choices));
    built_.meanings.push_back(std::move(meanings));
  }

  // The ways to store the operation's parameters: as it uses them; only the optimizer's state
  // sharded; sharded.
  std::vector<ChoiceMeaning> storages(OpId op, const OpStrategy& ways) const {
    ChoiceMeaning as_used{.ways = ways};
    const std::vector<TensorId>& inputs = graph_.op(op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (owner_[index(inputs[i])] == op) {
        Layout layout = input_layout(ways, i);
        std::ranges::replace_if(
            layout, [](const Placement& p) { return p.is_partial(); }, Placement::replicate());
        as_used.parameters.push_back({inputs[i], layout, layout});
        as_used.inputs.push_back(i);
      }
    }
    ChoiceMeaning state_sharded = as_used;
    bool any = false;
    for (ParameterLayouts& parameter : state_sharded.parameters) {
      any |= shard(parameter);
    }
    if (!any) {
      return {as_used};
    }
    ChoiceMeaning all_sharded = state_sharded;
    for (ParameterLayouts& parameter : all_sharded.parameters) {
      parameter.storage = parameter.optimizer_state;
    }
    return {as_used, state_sharded, all_sharded};
  }

  // Shards the optimizer's state on the axes where every rank would have all of it.
  bool shard(ParameterLayouts& parameter) const {
    bool any = false;
    Shape rest = graph_.tensor(parameter.tensor).shape;
    for (size_t axis = 0; axis < mesh_.size(); ++axis) {
      Placement& placement = parameter.optimizer_state[axis];
      if (placement.is_replicate() && mesh_[axis].size > 1) {
        placement = storage_shard(rest, mesh_[axis].size);
        any = true;
      }
      if (placement.is_shard()) {
        auto& extent = rest[index(placement.dim)];
        extent = (extent + mesh_[axis].size - 1) / mesh_[axis].size;  // what the next axis cuts
      }
    }
    return any;
  }

  int tensor_of(TensorId id) {
    Key key;
    key.add(graph_.tensor(id), false);
    key.add(is_kept(id));
    const auto [at, is_new] = tensors_.try_emplace(key.take(), static_cast<int>(tensors_.size()));
    if (is_new) {
      first_of_.push_back(id);
    }
    return at->second;
  }

  // A reshard between any two layouts that fit the tensor.
  void fill_tensors() {
    for (const TensorId id : first_of_) {
      TensorCosts costs;
      for (const Layout& written : layouts_) {
        for (const Layout& read : layouts_) {
          const bool possible = fits(id, written) && fits(id, read);
          costs.forward.push_back(possible ? costs_.reshard(id, written, read, is_kept(id))
                                           : Reshard{});
          costs.backward.push_back(
              possible ? costs_.reshard(id, read, gradient_of_all(written), false) : Reshard{});
        }
      }
      built_.problem.tensors.push_back(std::move(costs));
    }
  }
  bool fits(TensorId id, const Layout& layout) const {
    const Shape& shape = graph_.tensor(id).shape;
    return std::ranges::all_of(
        layout, [&](const Placement& p) { return !p.is_shard() || index(p.dim) < shape.size(); });
  }
  static Layout gradient_of_all(Layout layout) {
    std::ranges::transform(layout, layout.begin(), gradient_of);
    return layout;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  RuleCosts costs_;
  BuiltProblem built_;
  std::vector<bool> kept_;
  std::vector<OpId> owner_;
  std::vector<Layout> layouts_;
  std::map<std::string, size_t> numbers_;
  std::unordered_map<std::string, int> kinds_, tensors_;
  std::vector<TensorId> first_of_;  // per tensor of the problem
};

}  // namespace

BuiltProblem build_problem(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                           const BuildOptions& options) {
  return Builder(graph, mesh, costs, options).build();
}

Strategy to_strategy(const Graph& graph, const Mesh& mesh, const BuiltProblem& built,
                     const Plan& plan) {
  Strategy strategy{.name = "search", .mesh = mesh, .microbatches = built.problem.microbatches};
  std::map<TensorId, ParameterStrategy> parameters;
  for (size_t op = 0; op < plan.choices.size(); ++op) {
    const auto kind = static_cast<size_t>(built.problem.ops[op].kind);
    const ChoiceMeaning& meaning = built.meanings[kind].at(static_cast<size_t>(plan.choices[op]));
    strategy.ops.push_back(meaning.ways);
    for (size_t p = 0; p < meaning.inputs.size(); ++p) {
      const TensorId id = graph.ops()[op].inputs[meaning.inputs[p]];
      parameters[id] = {id, meaning.parameters[p].storage, meaning.parameters[p].optimizer_state};
    }
  }
  for (const auto& [id, parameter] : parameters) {
    strategy.parameters.push_back(parameter);
  }
  return strategy;
}

}  // namespace hidup
