// A strategy says how a model is computed on a mesh: a rule per operation and axis, and the storage
// of every parameter and optimizer state. It is plain data, the same on every rank.
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
#include "sharding/stage_schedule.h"

namespace hidup {

struct OpStrategy {
  std::vector<Rule> rules;  // one per axis
  // The output is freed after the forward pass and recomputed in the backward pass.
  bool recompute = false;

  bool operator==(const OpStrategy&) const = default;
};

// How long a gathered parameter stays in memory. step: until its last reader of the step. pass:
// until the forward pass ends; the backward pass gathers it anew, except those that it reads first
// (PyTorch's reshard_after_forward).
enum class Residency { step, pass };
// Returns the value of the files' key reshard_after_forward: "false" or "true".
std::string_view name_of(Residency residency);

struct ParameterStrategy {
  TensorId tensor = -1;
  Layout storage;
  Layout optimizer_state;
  Residency residency = Residency::step;

  bool operator==(const ParameterStrategy&) const = default;
};

// The predicted times and memory of a step on the busiest rank.
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
  int microbatches = 1;  // microbatches of a group
  // Groups of microbatches, one after the other, each with a forward and a backward pass. Gradients
  // add up over the groups, and are sent and applied once.
  int accumulate = 1;
  // The order in which the stages of a pipeline do the groups' passes. Nothing: all ranks do a
  // forward and a backward pass together, group by group.
  std::optional<StageSchedule> schedule = {};
  // Gradients are sent all at once after the backward pass, not in buckets as they become complete.
  bool defer_gradients = false;
  std::vector<OpStrategy> ops;                // in graph order
  std::vector<ParameterStrategy> parameters;  // in graph order
  // Routes of reshards that do not change one axis after the other, outermost first.
  std::vector<RouteChoice> routes = {};
  // Algorithms of collectives that are not left to the communicator.
  std::vector<AlgorithmChoice> algorithms = {};
  // Notes without effect: the first operations of the forward pass's stages, and the prediction by
  // which the strategy was chosen.
  std::vector<OpId> stages = {};
  std::optional<PredictedStep> predicted = {};
};

// Return the layout of input i, of the output, and of input i's gradient over all axes.
Layout input_layout(const OpStrategy& op, size_t input);
Layout output_layout(const OpStrategy& op);
Layout gradient_layout(const OpStrategy& op, size_t input);
// Returns the layout in which the backward pass reads an operand that lies in `layout`, to compute
// the gradient of input i: whole along axes whose rule gathers its factors.
Layout factor_layout(const OpStrategy& op, size_t input, Layout layout);
// Returns the layout of the values that the operation saves for its backward pass.
Layout saved_layout(const OpStrategy& op);

// Returns the rule of that name. Throws Error(usage) with the operation and its legal rules.
Rule find_rule(const Graph& graph, OpId op, std::string_view name);

// Returns true if the operation may be recomputed: all but the loss, which adds up in its pass.
bool can_recompute(const Graph& graph, OpId op);

// Formats a layout as "[R, S(0)]".
std::string print_layout(const Layout& layout);

// Returns the strategy as YAML for strategy files, which read_strategy.h reads.
std::string print_strategy(const Graph& graph, const Strategy& strategy);

// Returns the hash of the strategy's text without notes, which names the strategy.
uint64_t strategy_hash(const Graph& graph, const Strategy& strategy);

}  // namespace hidup
