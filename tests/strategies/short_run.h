// A few training steps of a graph under a strategy, and the comparison with one rank.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "runtime/emulator.h"
#include "runtime/executor.h"
#include "sharding/strategy.h"

namespace hidup {

// On rank 0; empty on the others.
struct ShortRun {
  std::vector<double> losses;                           // per step
  std::vector<double> accuracies;                       // likewise
  std::map<std::string, std::vector<float>> gradients;  // of step 1, by parameter, global, of the
                                                        // loss without its scale
  std::vector<std::vector<float>> loads;                // of the last step, per MoE layer
  std::vector<double> router_losses;                    // of step 1, per MoE layer: balance and z
  // Of the forward pass alone, on the inputs of step 1: before step 1, and behind the last one.
  std::vector<double> forward_losses;
  std::vector<std::vector<float>> forward_loads;  // of the latter

  bool operator==(const ShortRun&) const = default;
};

// Between the steps: after step `step`, and before the first with the number of those done before.
using AfterStep = std::function<void(Executor& executor, int step)>;

// Collective. Tokens are random numbers below `vocab` by their global index, images such between -1
// and 1. The programs (of the
// step and of the forward pass, which share a store) are verified on every rank. In f16 the loss is
// scaled by 1024. `done`: steps that are done; `after_step` gives the parameters their values then.
// `gradients_as`: LoweringOptions.
ShortRun run_steps(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                   int64_t vocab, const AfterStep& after_step = nullptr, int done = 0,
                   DType gradients_as = DType::f32);

// How steps are emulated, of the step's program.
struct Emulation {
  std::function<EmulatedTimes(const Program& program, int64_t rank)> times;
  // What is done to the program before; it is not verified then.
  std::function<void(Program& program)> change = nullptr;
  double dilation = 1e-3;
};

// The same, emulated: `after_step` finds the times in Executor::emulator().
ShortRun run_emulated(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                      int64_t vocab, const Emulation& emulation, const AfterStep& after_step);

// The same on this rank alone, every operation by itself and all rows dense (LoweringOptions).
ShortRun run_alone(const Graph& graph, int steps, int64_t vocab,
                   const AfterStep& after_step = nullptr);

// Of the forward pass with the parameters as they start. On every rank.
struct ForwardRun {
  double loss = 0.0;
  std::vector<float> logits;                  // [batch, sequence, vocab]
  std::vector<std::vector<int32_t>> targets;  // this rank's, one in every layout
};
ForwardRun run_forward(const Graph& graph, const Strategy& strategy, Communicator& world,
                       int64_t vocab);

// All operations by the first rule (replicate), all parameters replicated.
Strategy replicated_strategy(const Graph& graph, const Mesh& mesh);

// How far runs that are to be equal may be apart: in a loss (relative), in an accuracy, and in a
// gradient (largest difference over largest value of the tensor).
struct Bounds {
  double loss = 2e-5;
  double accuracy = 1e-6;
  float gradient = 1e-4F;
};

// In 16 bits strategies round other numbers: sums of parts where one rank has the whole. With a
// relative rounding error u, what of it reaches the loss is a mean over all targets of errors that
// do not agree: u covers it. A gradient collects the errors of both passes, a few dozen roundings,
// which add up like random numbers: 16 u. Rounded logits may be equal, or not, so that accuracies
// are not compared.
Bounds bounds_of(DType dtype);

// What differs by more than the bounds, or at all in an expert's load; empty where nothing does.
std::string differences(const ShortRun& expected, const ShortRun& found, const Bounds& bounds = {});

}  // namespace hidup
