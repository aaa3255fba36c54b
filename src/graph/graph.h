// The model as one device would compute it: tensors, and operations in order. It is plain data; a
// strategy later assigns the parts to ranks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "graph/attributes.h"

namespace hidup {

enum class OpKind {
  embedding,
  positions,
  rotary,
  prepend,
  first,
  matmul,
  wide_matmul,
  bias,
  relu,
  gelu,
  silu,
  swiglu,
  dropout,
  add,
  layer_norm,
  rms_norm,
  attention,
  grouped_attention,
  cross_entropy,
  route,
  route_biased,
  route_chosen,
  gate,
  expert_counts,
  dispatch,
  expert_matmul,
  expert_bias,
  combine,
  round_counts,
  expert_pack,
  expert_unpack,
};

// The initial values of a parameter: zeros, ones, uniform in [-scale, scale), or normal with mean 0
// and standard deviation `scale`.
struct Init {
  enum class Kind { zeros, ones, uniform, normal };
  Kind kind = Kind::zeros;
  double scale = 0.0;
};

// An input of a step named kChoices and a number from 0 on has the experts that the step's data
// choose for the tokens, in that layer with experts: i32 [batch, sequence, choices].
inline constexpr std::string_view kChoices = "choices.";

// Rows that are expected of every expert over the mean of all experts; null: all have the mean.
using ExpectedLoads = std::shared_ptr<const std::vector<double>>;

struct OperationSpec;
using TensorId = int32_t;
using OpId = int32_t;

struct Tensor {
  enum class Role { input, parameter, activation };
  std::string name;  // unique in the graph
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::string> dims;  // names of the dimensions, also those of sharding rules
  Role role = Role::activation;
  OpId producer = -1;  // activations only
  Init init;           // parameters only
  bool decay = false;  // parameters only: weight decay applies
  // Parameters only. False: it has no gradient, stays f32, and the step moves it by other numbers.
  bool learned = true;
  // Rows of experts, [experts, batch, rows, width], that lie packed: the number of rows in use of
  // every [expert, batch] is data, in this tensor, and `rows` is their mean, rounded up. -1: dense.
  TensorId counts = -1;
  // Counts only. The costs of packed rows follow the loads. Experts have room for `slack` times the
  // mean rows, at least 1, and take more in rounds (program/rounds.h); nothing: room for all rows.
  ExpectedLoads loads = nullptr;
  std::optional<double> slack = {};

  // Returns the dimension named batch, or -1 without one.
  int batch_dim() const;
};

struct Op {
  OpKind kind = OpKind::add;
  std::vector<TensorId> inputs;
  TensorId output = -1;  // an operation has the name of its output
  OpAttributes attributes;

  // Returns the attributes; `Kind` is the type that the operation's record has.
  template <typename Kind>
  const Kind& as() const {
    return std::get<Kind>(attributes);
  }
};

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}

  TensorId add_input(const std::string& name, DType dtype, const Shape& shape);
  TensorId add_parameter(const std::string& name, const Shape& shape, Init init, bool decay,
                         DType dtype = DType::f32);
  // Adds an operation and infers its output's type. Floating inputs must have one type, which the
  // output gets, except gates and the loss, which are f32. Missing attributes get the defaults of
  // the operation's record, or those of the routing that it reads. Throws Error(usage) with the
  // operation, the shapes and what was expected where they do not fit.
  TensorId add_op(OpKind kind, const std::string& name, const std::vector<TensorId>& inputs,
                  const OpAttributes& attributes = {});

  // Set what counts expect. Throws Error(usage) for loads of another number of experts.
  void expect(TensorId counts, ExpectedLoads loads, std::optional<double> slack);

  const std::string& name() const { return name_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Op>& ops() const { return ops_; }  // inputs before their readers
  const Tensor& tensor(TensorId id) const { return tensors_.at(static_cast<size_t>(id)); }
  const Op& op(OpId id) const { return ops_.at(static_cast<size_t>(id)); }
  const std::string& op_name(OpId id) const { return tensor(op(id).output).name; }
  TensorId find(std::string_view name) const;  // returns -1 if there is none
  // Returns the scalar that training minimizes: the output of the last operation.
  TensorId loss() const { return ops_.back().output; }
  int64_t parameter_count() const;  // elements

 private:
  friend Graph with_decay(Graph graph, const std::vector<std::string>& without);

  TensorId add_tensor(Tensor tensor);
  OpAttributes complete(OpKind kind, const std::vector<TensorId>& inputs,
                        const OpAttributes& given) const;
  void check_learned(const OperationSpec& spec, const std::vector<TensorId>& inputs) const;
  void check_round(TensorId counts, const RoundAttributes& round) const;
  void check_counts(TensorId counts, TensorId buffer) const;
  TensorId counts_of_output(OpKind kind, const std::vector<TensorId>& inputs) const;

  std::string name_;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::map<std::string, TensorId, std::less<>> by_name_;
  double elements_ = 0.0;  // elements of all tensors
};

// Returns the graph with weight decay for all parameters without a matching pattern (core/text.h).
Graph with_decay(Graph graph, const std::vector<std::string>& without);

// Returns the graph whose layers with experts expect these loads, a layer each. Layers behind the
// last one have its loads; empty: even loads.
Graph with_loads(Graph graph, const std::vector<ExpectedLoads>& layers);

// Returns the graph whose layers with experts have that slack.
Graph with_slack(Graph graph, std::optional<double> slack);

// Returns the graph with parameters and images of that floating type, and activations accordingly.
Graph with_precision(Graph graph, DType dtype);

}  // namespace hidup
