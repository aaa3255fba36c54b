// A few training steps of a graph under a strategy, and the comparison with one rank.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "runtime/emulator.h"
#include "runtime/executor.h"
#include "sharding/strategy.h"

namespace hidup {

// Results on rank 0; empty on the others.
struct ShortRun {
  std::vector<double> losses;                           // per step
  std::vector<double> accuracies;                       // per step
  std::map<std::string, std::vector<float>> gradients;  // of step 1, by parameter, global, of the
                                                        // loss without its scale
  std::vector<std::vector<float>> loads;                // of the last step, per MoE layer
  std::vector<double> router_losses;                    // of step 1, per MoE layer: balance and z
  // Losses of the forward pass alone on step 1's inputs: before step 1, and after the last step.
  std::vector<double> forward_losses;
  std::vector<std::vector<float>> forward_loads;  // of the latter pass

  bool operator==(const ShortRun&) const = default;
};

// Choices in which runs differ.
struct RunOptions {
  DType gradients_as = DType::f32;
  std::optional<double> expert_slack = {};
};

// Called after step `step`, and before the first step with the number of steps done before.
using AfterStep = std::function<void(Executor& executor, int step)>;

// Runs steps; collective. Tokens are random numbers below `vocab` by their global index, images
// such numbers between -1 and 1. The programs (of the step and of the forward pass, which share a
// store) are verified on every rank. In f16 the loss is scaled by 1024. `done`: steps done before;
// `after_step` then gives the parameters their values.
ShortRun run_steps(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                   int64_t vocab, const AfterStep& after_step = nullptr, int done = 0,
                   const RunOptions& chosen = {});

// The emulation of a step's program.
struct Emulation {
  std::function<EmulatedTimes(const Program& program, int64_t rank)> times;
  // Changes the program first; then it is not verified.
  std::function<void(Program& program)> change = nullptr;
  double dilation = 1e-3;
};

// Does the same under emulation: `after_step` finds the times in Executor::emulator().
ShortRun run_emulated(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                      int64_t vocab, const Emulation& emulation, const AfterStep& after_step);

// Does the same on this rank alone, with unfused operations and dense rows (LoweringOptions).
ShortRun run_alone(const Graph& graph, int steps, int64_t vocab,
                   const AfterStep& after_step = nullptr);

// Results of the forward pass with the initial parameters, on every rank.
struct ForwardRun {
  double loss = 0.0;
  std::vector<float> logits;                  // [batch, sequence, vocab]
  std::vector<std::vector<int32_t>> targets;  // this rank's, one in every layout
};
ForwardRun run_forward(const Graph& graph, const Strategy& strategy, Communicator& world,
                       int64_t vocab);

// Returns the first rule (replicate) for all operations, with all parameters replicated.
Strategy replicated_strategy(const Graph& graph, const Mesh& mesh);

// Largest differences between runs that should be equal: of a loss (relative), of an accuracy, and
// of a gradient (largest difference over largest value of the tensor).
struct Bounds {
  double loss = 2e-5;
  double accuracy = 1e-6;
  float gradient = 1e-4F;
};

// Returns the bounds for a type. In 16 bits strategies round other numbers, such as sums of parts
// instead of one sum. With a relative rounding error u, the loss is a mean over all targets of
// independent errors: u covers it. A gradient collects the errors of both passes, a few dozen
// roundings, which add up like random numbers: 16 u. Rounded logits may or may not be equal, so
// accuracies are not compared.
Bounds bounds_of(DType dtype);

// Returns differences beyond the bounds, and any in an expert's load; empty without differences.
std::string differences(const ShortRun& expected, const ShortRun& found, const Bounds& bounds = {});

}  // namespace hidup
