// How a model is computed on a mesh: a rule per operation and axis, the storage of
// every parameter and of its optimizer state. Plain data, the same on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "sharding/algorithms.h"
#include "sharding/placement.h"
#include "sharding/routes.h"
#include "sharding/rules.h"

namespace hidup {

struct OpStrategy {
  std::vector<Rule> rules;  // one per axis
  // What it writes is not kept for the backward pass, which computes it again.
  bool recompute = false;

  bool operator==(const OpStrategy&) const = default;
};

// How long what a step gathers of a parameter is kept: until nothing of the step reads it any more;
// or for the forward pass, after which the backward pass gathers it again (but for what it reads
// first).
enum class Kept { step, pass };
std::string_view name_of(Kept kept);

struct ParameterStrategy {
  TensorId tensor = -1;
  Layout storage;
  Layout optimizer_state;
  Kept kept = Kept::step;

  bool operator==(const ParameterStrategy&) const = default;
};

// What a step was predicted to take, on the busiest rank.
struct PredictedStep {
  double iteration_s = 0.0;
  double compute_s = 0.0;
  double comm_s = 0.0;
  double exposed_comm_s = 0.0;
  int64_t peak_bytes = 0;
};

struct Strategy {
  std::string name;
  Mesh mesh;
  int microbatches = 1;  // of a group
  // Groups of microbatches, one after the other: each has its forward and its backward pass.
  // Gradients add up over them, and are sent and applied once.
  int accumulate = 1;
  // Gradients are sent when the backward pass is through, all at once, instead of in buckets
  // as they become complete.
  bool defer_gradients = false;
  std::vector<OpStrategy> ops;                // in graph order
  std::vector<ParameterStrategy> parameters;  // in graph order
  // Of reshards that do not go by one axis after the other, outermost first.
  std::vector<RouteChoice> routes = {};
  // Of collectives that are not left to who carries them.
  std::vector<AlgorithmChoice> algorithms = {};
  // Notes for readers, which change nothing: the operations with which a stage of the forward pass
  // begins, and the prediction it was chosen by.
  std::vector<OpId> stages = {};
  std::optional<PredictedStep> predicted = {};
};

// Layout of input i, of the output, and of input i's gradient over all axes.
Layout input_layout(const OpStrategy& op, size_t input);
Layout output_layout(const OpStrategy& op);
Layout gradient_layout(const OpStrategy& op, size_t input);
// Layout of what the operation keeps for its backward pass.
Layout saved_layout(const OpStrategy& op);

// The rule of that name; Error(usage) naming the operation and its legal rules if
// there is none.
Rule find_rule(const Graph& graph, OpId op, std::string_view name);

// Whether the strategy may compute the operation again: not the loss, which adds up in its pass.
bool can_recompute(const Graph& graph, OpId op);

// "[R, S(0)]"
std::string print_layout(const Layout& layout);

// The strategy as YAML, as strategy files hold it; read_strategy.h reads it.
std::string print_strategy(const Graph& graph, const Strategy& strategy);

// The hash that names a strategy: of its text without notes.
uint64_t strategy_hash(const Graph& graph, const Strategy& strategy);

}  // namespace hidup
