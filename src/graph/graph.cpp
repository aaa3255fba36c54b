#include "graph/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/limits.h"
#include "core/region.h"
#include "core/text.h"
#include "graph/operation.h"

namespace hidup {

TensorId Graph::add_tensor(Tensor tensor) {
  const auto id = static_cast<TensorId>(tensors_.size());
  if (tensor.shape.size() > kMaxDims) {
    fail(ExitCode::usage, "{} has {} dimensions, more than {}", tensor.name, tensor.shape.size(),
         kMaxDims);
  }
  elements_ += std::accumulate(tensor.shape.begin(), tensor.shape.end(), 1.0, std::multiplies<>());
  if (elements_ > kMaxElements) {
    fail(ExitCode::usage,
         "{} of shape {}: this and all tensors before have {:.3g} elements, more than 2^56 = "
         "{:.3g}",
         tensor.name, to_string(tensor.shape), elements_, kMaxElements);
  }
  if (!by_name_.emplace(tensor.name, id).second) {
    fail(ExitCode::usage, "{} is defined twice", tensor.name);
  }
  tensors_.push_back(std::move(tensor));
  return id;
}

namespace {

// Returns the usual names of dimensions for tensors that no operation made.
std::vector<std::string> usual_dims(const Shape& shape) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    dims.push_back(d == 0                  ? "batch"
                   : d == 1                ? "sequence"
                   : d + 1 == shape.size() ? "column"
                                           : fmt::format("dimension({})", d));
  }
  return dims;
}

DType dtype_of(InputSpec::Type type, DType floating) {
  return type == InputSpec::Type::i32   ? DType::i32
         : type == InputSpec::Type::f32 ? DType::f32
                                        : floating;
}

// Returns the capacity of an experts' buffer, or -1 for others, which the shape rule reports.
int64_t capacity_of(const Tensor& buffer) {
  return buffer.shape.size() == 4 ? buffer.shape[2] : -1;
}

}  // namespace

int Tensor::batch_dim() const {
  const auto found = std::ranges::find(dims, "batch");
  return found == dims.end() ? -1 : static_cast<int>(found - dims.begin());
}

TensorId Graph::add_input(const std::string& name, DType dtype, const Shape& shape) {
  Tensor tensor{.name = name,
                .dtype = dtype,
                .shape = shape,
                .dims = usual_dims(shape),
                .role = Tensor::Role::input};
  return add_tensor(std::move(tensor));
}

TensorId Graph::add_parameter(const std::string& name, const Shape& shape, Init init, bool decay,
                              DType dtype) {
  Tensor tensor{.name = name,
                .dtype = dtype,
                .shape = shape,
                .dims = usual_dims(shape),
                .role = Tensor::Role::parameter,
                .init = init,
                .decay = decay};
  return add_tensor(std::move(tensor));
}

// Fills in the defaults of attributes, and those that an operation shares with the producer of its
// routing: two capacities would write beyond a buffer.
OpAttributes Graph::complete(OpKind kind, const std::vector<TensorId>& inputs,
                             const OpAttributes& given) const {
  const OperationSpec& spec = spec_of(kind);
  OpAttributes attributes = std::holds_alternative<NoAttributes>(given) ? spec.attributes : given;
  check(attributes.index() == spec.attributes.index(), "{} has other attributes", spec.name);
  for (size_t i = 0; i < inputs.size() && i < spec.inputs.size(); ++i) {
    if (spec.inputs[i].name == "counts" && kind != OpKind::expert_pack) {
      check_counts(inputs[i], inputs[0]);
    }
    if (kind == OpKind::expert_pack && i == 2) {
      check_round(inputs[i], std::get<PackAttributes>(attributes).round);
    }
    if (spec.inputs[i].name != "routing") {
      continue;
    }
    const OpId producer = tensor(inputs[i]).producer;
    if (producer < 0 || !is_route(op(producer))) {
      fail(ExitCode::usage, "{} is not a routing, the output of a route operation",
           tensor(inputs[i]).name);
    }
    const auto take = [](std::string_view name, int64_t& own, int64_t routed) {
      if (own != 0 && own != routed) {
        fail(ExitCode::usage, "{} is {}, but {} in the routing", name, own, routed);
      }
      own = routed;
    };
    std::visit(
        [&](auto& held) {
          if constexpr (requires { held.experts; }) {
            take("capacity", held.capacity, op(producer).as<RouteAttributes>().capacity);
            take("experts", held.experts, tensor(op(producer).inputs[0]).shape.back());
          }
        },
        attributes);
  }
  return attributes;
}

void Graph::check_counts(TensorId counts, TensorId buffer) const {
  const OpId producer = tensor(counts).producer;
  const TensorId packed_by = tensor(buffer).counts;
  const bool counted = producer >= 0 && op(producer).kind == OpKind::expert_counts;
  const bool fits = packed_by >= 0 ? counts == packed_by
                                   : counted && op(producer).as<ExpertAttributes>().capacity ==
                                                    capacity_of(tensor(buffer));
  if (!fits) {
    fail(ExitCode::usage, "{} does not count the slots of {}", tensor(counts).name,
         tensor(buffer).name);
  }
}

void Graph::check_round(TensorId counts, const RoundAttributes& round) const {
  const OpId producer = tensor(counts).producer;
  const auto* counted =
      producer < 0 ? nullptr : std::get_if<RoundAttributes>(&op(producer).attributes);
  if ((counted == nullptr ? RoundAttributes{} : *counted) != round) {
    const std::string wanted = round.rows == 0 ? "all rows"
                                               : fmt::format(
                                                     "{} rows of every expert and sequence "
                                                     "from row {} on",
                                                     round.rows, round.first);
    fail(ExitCode::usage, "{} does not count {}", tensor(counts).name, wanted);
  }
}

// Operations on packed rows leave packed rows, until expert_unpack.
TensorId Graph::counts_of_output(OpKind kind, const std::vector<TensorId>& inputs) const {
  if (kind == OpKind::expert_pack) {
    return inputs[2];
  }
  TensorId counts = -1;
  for (const TensorId input : inputs) {
    const TensorId packed_by = tensor(input).counts;
    if (packed_by < 0) {
      continue;
    }
    if (!spec_of(kind).takes_packed || (counts >= 0 && counts != packed_by)) {
      fail(ExitCode::usage, "takes no packed rows such as {}", tensor(input).name);
    }
    counts = packed_by;
  }
  if (kind == OpKind::add && counts >= 0 && tensor(inputs[0]).counts != tensor(inputs[1]).counts) {
    fail(ExitCode::usage, "adds packed rows to others");
  }
  return kind == OpKind::expert_unpack ? -1 : counts;
}

// Operations agree on whether a tensor has a gradient.
void Graph::check_learned(const OperationSpec& spec, const std::vector<TensorId>& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = tensor(inputs[i]);
    const bool learned = spec.inputs[i].learned;
    const auto is_read = [&] {
      return std::ranges::any_of(ops_, [&](const Op& op) {
        return std::ranges::find(op.inputs, inputs[i]) != op.inputs.end();
      });
    };
    if (learned ? !input.learned
                : input.role != Tensor::Role::parameter || (input.learned && is_read())) {
      fail(ExitCode::usage, "{} as {}: expected a parameter that {}", input.name,
           spec.inputs[i].name, learned ? "has a gradient" : "no other operation reads");
    }
  }
}

TensorId Graph::add_op(OpKind kind, const std::string& name, const std::vector<TensorId>& inputs,
                       const OpAttributes& attributes) {
  const OperationSpec& spec = spec_of(kind);
  Op op{.kind = kind, .inputs = inputs};
  std::vector<Shape> shapes;
  DType floating = DType::i32;
  for (const TensorId input : inputs) {
    floating = is_floating(floating) ? floating : tensor(input).dtype;
    shapes.push_back(tensor(input).shape);
  }
  Tensor output{.name = name,
                .dtype = dtype_of(spec.output, floating),
                .producer = static_cast<OpId>(ops_.size())};
  try {
    op.attributes = complete(kind, inputs, attributes);
    output.shape = infer_shape(kind, shapes, op.attributes);
    output.dims = infer_dims(kind, tensor(inputs[0]).dims, output.shape, op.attributes);
    output.counts = counts_of_output(kind, inputs);
    check_learned(spec, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DType wanted =
          dtype_of(spec.inputs[i].type, is_floating(floating) ? floating : DType::f32);
      if (tensor(inputs[i]).dtype != wanted) {
        fail(ExitCode::usage, "expected {} of {}, found {} of {}", spec.inputs[i].name,
             name_of(wanted), tensor(inputs[i]).name, name_of(tensor(inputs[i]).dtype));
      }
    }
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
  op.output = add_tensor(std::move(output));
  for (size_t i = 0; i < inputs.size(); ++i) {
    tensors_[static_cast<size_t>(inputs[i])].learned &= spec.inputs[i].learned;
  }
  ops_.push_back(std::move(op));
  return ops_.back().output;
}

void Graph::expect(TensorId counts, ExpectedLoads loads, std::optional<double> slack) {
  Tensor& counted = tensors_.at(static_cast<size_t>(counts));
  if (loads && std::ssize(*loads) != counted.shape[0]) {
    fail(ExitCode::usage, "{} counts the rows of {} experts, but loads are expected of {}",
         counted.name, counted.shape[0], loads->size());
  }
  counted.loads = std::move(loads);
  counted.slack = slack;
}

TensorId Graph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& tensor : tensors_) {
    count += tensor.role == Tensor::Role::parameter ? elements(tensor.shape) : 0;
  }
  return count;
}

Graph with_decay(Graph graph, const std::vector<std::string>& without) {
  for (Tensor& tensor : graph.tensors_) {
    tensor.decay = tensor.role == Tensor::Role::parameter &&
                   std::ranges::none_of(without, [&](const std::string& pattern) {
                     return matches(pattern, tensor.name);
                   });
  }
  return graph;
}

Graph with_loads(Graph graph, const std::vector<ExpectedLoads>& layers) {
  size_t layer = 0;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::expert_counts && !layers.empty()) {
      graph.expect(op.output, layers[std::min(layer++, layers.size() - 1)],
                   graph.tensor(op.output).slack);
    }
  }
  return graph;
}

Graph with_slack(Graph graph, std::optional<double> slack) {
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::expert_counts) {
      graph.expect(op.output, graph.tensor(op.output).loads, slack);
    }
  }
  return graph;
}

Graph with_precision(Graph graph, DType dtype) {
  const auto converts = [dtype](const Tensor& tensor) {
    return tensor.role != Tensor::Role::activation && is_floating(tensor.dtype) && tensor.learned &&
           tensor.dtype != dtype;
  };
  const bool has_it = std::ranges::none_of(graph.tensors(), converts);
  if (has_it) {
    return graph;
  }
  Graph result(graph.name());
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      result.add_parameter(tensor.name, tensor.shape, tensor.init, tensor.decay,
                           tensor.learned ? dtype : tensor.dtype);
    } else if (tensor.role == Tensor::Role::input) {
      result.add_input(tensor.name, converts(tensor) ? dtype : tensor.dtype, tensor.shape);
    } else {
      const Op& op = graph.op(tensor.producer);
      result.add_op(op.kind, tensor.name, op.inputs, op.attributes);
    }
  }
  return result;
}

}  // namespace hidup
