#include "search/problem/build_problem.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "core/deadline.h"
#include "core/key.h"
#include "graph/operation.h"
#include "search/problem/factors.h"
#include "search/problem/memory_variants.h"
#include "search/problem/op_strategies.h"
#include "search/problem/storages.h"

namespace hidup {
namespace {

void add(MapKey& key, const Graph& graph, TensorId id) {
  const Tensor& tensor = graph.tensor(id);
  key.add(tensor.dtype);
  key.add(tensor.role);
  key.add(tensor.shape.size());
  for (const int64_t extent : tensor.shape) {
    key.add(extent);
  }
  add_packed_rows(key, packed_rows_of(graph, id));
}

// Adds the tensor with the names of its dimensions.
void add_with_names(MapKey& key, const Graph& graph, TensorId id) {
  add(key, graph, id);
  for (const auto& name : graph.tensor(id).dims) {
    key.add(name);
  }
}

const Hints kNoHints;

struct TooManyLayouts {};

// Numbers layouts.
class Layouts {
 public:
  int number_of(const Layout& layout) {
    const auto [at, is_new] = numbers_.try_emplace(to_string(layout), all_.size());
    if (is_new) {
      all_.push_back(layout);
    }
    return static_cast<int>(at->second);
  }
  const std::vector<Layout>& all() const { return all_; }

 private:
  std::vector<Layout> all_;
  std::unordered_map<std::string, size_t> numbers_;
};

// Returns, for every parameter, the operation whose choice sets its storage and bears its costs:
// the last reader (the head, if it shares the embedding's weight). Only the simulation has the
// costs of other readers that need another layout.
std::vector<OpId> owners_of(const Graph& graph) {
  std::vector<OpId> owners(graph.tensors().size(), -1);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    for (const TensorId id : graph.op(op).inputs) {
      if (graph.tensor(id).role == Tensor::Role::parameter) {
        owners[static_cast<size_t>(id)] = op;
      }
    }
  }
  return owners;
}

class Builder {
 public:
  Builder(const Graph& graph, const Mesh& mesh, const CostModel& costs, const BuildOptions& options)
      : graph_(graph),
        mesh_(mesh),
        costs_(graph, mesh, costs, options.microbatches * options.accumulate, options.bucket_bytes,
               options.gradients_as, options.reshards),
        groups_(options.accumulate),
        same_rules_(options.same_rules),
        near_(options.near),
        most_near_(options.most_near),
        shares_(options.shares),
        hints_(options.hints != nullptr ? *options.hints : kNoHints),
        storages_(graph, mesh, hints_, options.storages),
        reads_(backward_reads(graph)),
        owner_(owners_of(graph)),
        variants_(graph, hints_, options.memory_choices, reads_,
                  {graph, reads_, ranks_of(mesh), options.bucket_bytes, options.microbatches,
                   options.accumulate > 1 || options.few_activations}) {
    built_.problem.microbatches = options.microbatches;
    built_.problem.memory_limit = options.memory_limit;
    built_.problem.interference = costs_.interference();
    built_.problem.base_s = costs.overhead_s();
    built_.defer_gradients = hints_.defer_gradients.value_or(false);
    built_.accumulate = options.accumulate;
    built_.recompute_for_readers = variants_.recompute_for_readers();
  }

  BuiltProblem build() {
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops().size()); ++op) {
      built_.problem.ops.push_back({kind_of(op), producers(op)});
    }
    for (const std::vector<OpId>& kind : ops_of_kind_) {
      add_kind(kind);
    }
    for (const TensorLayouts& tensor : tensor_layouts_) {
      built_.problem.tensors.push_back(costs_of(tensor));
    }
    return std::move(built_);
  }

 private:
  static size_t index(int32_t id) { return static_cast<size_t>(id); }
  bool is_activation(TensorId id) const {
    return graph_.tensor(id).role == Tensor::Role::activation;
  }

  bool is_kept(TensorId id) const { return reads_[index(id)] > 0; }
  // Returns true where one reader's backward pass alone reads the tensor, whose copy replaces it.
  bool is_kept_as_copy(TensorId id) const {
    return reads_[index(id)] == 1 && is_activation(id) &&
           !backward_needs_output(graph_.op(graph_.tensor(id).producer).kind);
  }

  // Returns the operation's inputs that are parameters it owns.
  std::vector<size_t> owned_by(OpId op) const {
    std::vector<size_t> owned;
    const std::vector<TensorId>& inputs = graph_.op(op).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (owner_[index(inputs[i])] == op) {
        owned.push_back(i);
      }
    }
    return owned;
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

  static int number_for_reader(Layouts& layouts, const Layout& layout) {
    const int number = layouts.number_of(layout);
    if (number >= kMostLayouts) {
      throw TooManyLayouts();
    }
    return number;
  }

  int kind_of(OpId op) {
    const Op& self = graph_.op(op);
    MapKey key;
    key.add(self.kind);
    for_each_attribute(self.attributes, [&](std::string_view, double value) { key.add(value); });
    for (const TensorId input : self.inputs) {
      add_with_names(key, graph_, input);
      key.add(owner_[index(input)] == op);
      if (is_activation(input)) {
        key.add(tensor_of(input));
      }
    }
    add_with_names(key, graph_, self.output);
    key.add(tensor_of(self.output));
    key.add(variants_.may_recompute(op));
    add_hints(op, key);
    const auto [at, is_new] = kinds_.try_emplace(key.take(), static_cast<int>(kinds_.size()));
    if (is_new) {
      ops_of_kind_.emplace_back();
    }
    ops_of_kind_[index(at->second)].push_back(op);
    return at->second;
  }

  void add_hints(OpId op, MapKey& key) const {
    if (const OperationHint* hint = hints_.of_operation(op)) {
      for (const std::optional<Rule>& rule : hint->rules) {
        key.add(rule ? to_string(*rule) : "");
      }
      key.add(hint->recompute ? static_cast<int>(*hint->recompute) : -1);
    }
    for (const TensorId input : graph_.op(op).inputs) {
      if (const ParameterHint* hint = hints_.of_parameter(input)) {
        key.add(hint->storage ? to_string(*hint->storage) : "");
        key.add(hint->optimizer_state ? to_string(*hint->optimizer_state) : "");
        key.add(hint->residency ? static_cast<int>(*hint->residency) : -1);
      }
    }
  }

  std::vector<OpStrategy> op_strategies_of_kind(const std::vector<OpId>& ops) const {
    const OperationHint* hint = hints_.of_operation(ops[0]);
    if (near_ == nullptr) {
      return op_strategies_of(graph_, ops[0], mesh_, hint, same_rules_, shares_);
    }
    std::vector<OpStrategy> known;
    known.reserve(ops.size());
    for (const OpId op : ops) {
      known.push_back(near_->ops[index(op)]);
    }
    return op_strategies_near(graph_, ops[0], mesh_, hint, known, most_near_, shares_);
  }

  // Returns true where no plan is faster with the strategy than with another of these, because the
  // factors that it gathers take too long.
  bool gathers_in_vain(OpId op, const OpStrategy& op_strategy,
                       const std::vector<OpStrategy>& others) const {
    return std::ranges::any_of(others, [&](const OpStrategy& other) {
      return is_without_factors(other, op_strategy) &&
             sends_no_longer(costs_, {op, groups_}, other, op_strategy,
                             storages_.of(op, op_strategy, owned_by(op)));
    });
  }

  void add_kind(const std::vector<OpId>& ops) {
    const OpId op = ops[0];
    const Op& self = graph_.op(op);
    OpChoices choices{.tensor = tensor_of(self.output)};
    std::vector<ChoiceMeaning> meanings;
    const std::vector<OpStrategy> op_strategies = op_strategies_of_kind(ops);
    for (const OpStrategy& op_strategy : op_strategies) {
      TimeLimit::check();
      if (gathers_in_vain(op, op_strategy, op_strategies)) {
        continue;
      }
      Choice base = costs_.operation(op, op_strategy);
      base.output =
          tensor_layouts_[index(choices.tensor)].written.number_of(output_layout(op_strategy));
      if (is_kept(self.output)) {
        base.saved_bytes += costs_.bytes(self.output, output_layout(op_strategy));
      }
      for (size_t i = 0; i < self.inputs.size(); ++i) {
        if (is_activation(self.inputs[i])) {
          const bool has_gradient =
              is_floating(graph_.tensor(self.inputs[i]).dtype) && has_backward(self);
          TensorLayouts& read = tensor_layouts_[index(tensor_of(self.inputs[i]))];
          base.inputs.push_back(
              {number_for_reader(read.required, input_layout(op_strategy, i)),
               has_gradient ? number_for_reader(read.gradients, gradient_layout(op_strategy, i))
                            : -1});
        }
      }
      in_all_groups(base);
      for (const ChoiceMeaning& meaning : storages_.of(op, op_strategy, owned_by(op))) {
        Choice choice = base;
        std::vector<Gather> gathers;
        for (size_t p = 0; p < meaning.parameters.size(); ++p) {
          const double before = choice.gather_s;
          const TransientBytes bytes =
              costs_.add_parameter(op_strategy, meaning.inputs[p], meaning.parameters[p], choice);
          gathers.push_back({.seconds = choice.gather_s - before, .bytes = bytes});
        }
        variants_.add(op, choice, gathers, meaning, choices.choices, meanings);
      }
    }
    built_.problem.kinds.push_back(std::move(choices));
    built_.meanings.push_back(std::move(meanings));
  }

  // Merges the microbatches of all groups, one after the other, into one of the problem.
  void in_all_groups(Choice& choice) const {
    for (double* seconds : {&choice.forward_compute_s, &choice.backward_compute_s,
                            &choice.forward_comm_s, &choice.backward_comm_s}) {
      *seconds *= groups_;
    }
    choice.saved_bytes /= groups_;
  }
  Reshard in_all_groups(const Reshard& reshard) const {
    return {.comm_s = groups_ * reshard.comm_s,
            .compute_s = groups_ * reshard.compute_s,
            .bytes = reshard.bytes / groups_};
  }

  int tensor_of(TensorId id) {
    MapKey key;
    add(key, graph_, id);
    key.add(is_kept(id));
    key.add(is_kept_as_copy(id));
    const auto [at, is_new] = tensors_.try_emplace(key.take(), static_cast<int>(tensors_.size()));
    if (is_new) {
      tensor_layouts_.push_back({.first = id});
    }
    return at->second;
  }

  // The layouts of a tensor of the problem: those that operations write, those that readers
  // require, and those of the gradients they leave.
  struct TensorLayouts {
    TensorId first = -1;  // a graph tensor of this kind
    Layouts written, required, gradients;
  };

  TensorCosts costs_of(const TensorLayouts& tensor) const {
    // A tensor without readers has a column, too.
    const auto table = [](const Layouts& read) {
      return Reshards{.all = {}, .read = std::max(1, static_cast<int>(read.all().size()))};
    };
    TensorCosts costs{.forward = table(tensor.required), .backward = table(tensor.gradients)};
    const bool kept = is_kept(tensor.first);
    for (const Layout& written : tensor.written.all()) {
      TimeLimit::check();
      for (const Layout& read : tensor.required.all()) {
        Reshard& reshard =
            costs.forward.all.emplace_back(costs_.reshard(tensor.first, written, read, kept));
        if (is_kept_as_copy(tensor.first)) {
          // The tensor as written counts already.
          reshard.bytes = std::max(0.0, reshard.bytes - costs_.bytes(tensor.first, written));
        }
        reshard = in_all_groups(reshard);
      }
      for (const Layout& read : tensor.gradients.all()) {
        costs.backward.all.push_back(
            in_all_groups(costs_.reshard(tensor.first, read, gradient_of(written), false)));
      }
    }
    const size_t count = tensor.written.all().size();
    costs.forward.all.resize(count * static_cast<size_t>(costs.forward.read));
    costs.backward.all.resize(count * static_cast<size_t>(costs.backward.read));
    return costs;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  RuleCosts costs_;
  double groups_;
  bool same_rules_;
  const Strategy* near_;
  size_t most_near_;
  const std::vector<ShareNumber> shares_;
  const Hints& hints_;
  const Storages storages_;
  BuiltProblem built_;
  const std::vector<int> reads_;
  const std::vector<OpId> owner_;
  const MemoryVariants variants_;
  std::unordered_map<std::string, int> kinds_, tensors_;
  std::vector<std::vector<OpId>> ops_of_kind_;
  std::vector<TensorLayouts> tensor_layouts_;  // per tensor of the problem
};

}  // namespace

std::optional<BuiltProblem> try_build_problem(const Graph& graph, const Mesh& mesh,
                                              const CostModel& costs, const BuildOptions& options) {
  try {
    return Builder(graph, mesh, costs, options).build();
  } catch (const TooManyLayouts&) {
    return std::nullopt;
  }
}

BuiltProblem build_problem(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                           const BuildOptions& options) {
  std::optional<BuiltProblem> built = try_build_problem(graph, mesh, costs, options);
  if (!built) {
    fail(
        ExitCode::usage,
        "on this mesh of {} axes the hints lead to more than the {} layouts of a tensor that the "
        "search can tell apart: hint at fewer operations, or give all of the strategy (--strategy)",
        mesh.size(), kMostLayouts);
  }
  return *std::move(built);
}

}  // namespace hidup
