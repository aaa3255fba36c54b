// The loads of experts, told while training and in the summary.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace hidup {

// The loads of one layer with experts, as means over recent steps.
struct LayerLoad {
  double largest = 0.0;  // largest load of an expert over the mean of the layer
  double median = 0.0;   // of the experts' loads, over the mean
  double p95 = 0.0;      // 95 % of the experts have this load at most
  double idle = 0.0;     // experts without a token in a step
  double dropped = 0.0;  // part of the choices that found no slot
};

// Returns the loads of a layer in a step; `tokens`, `dropped`: choices by expert.
LayerLoad layer_load(std::span<const int64_t> tokens, std::span<const int64_t> dropped);

// Loads that a run expects of its experts.
struct ExpertExpectation {
  double warn_imbalance = 0.0;  // model.moe.warn_imbalance; 0: no warnings
  // The largest load over the mean that the plan expects (model.moe.load), by layer; a layer behind
  // the last one has that of the last. Empty: none decides how long a step takes.
  std::vector<double> largest;
};

// Keeps the loads of the last 20 steps. For rank 0.
class ExpertReport {
 public:
  explicit ExpertReport(ExpertExpectation expected = {}) : expected_(std::move(expected)) {}

  // Takes the loads of a step, [layers, experts]. Warns once per layer of a mean imbalance above
  // the threshold, and once of more than 10 % dropped choices, over 20 steps.
  void step(std::span<const int64_t> tokens, std::span<const int64_t> dropped, int64_t layers);

  // Returns the lines of the summary: one per layer, of many layers the least even ones. Empty for
  // a run without experts.
  std::vector<std::string> summary() const;

 private:
  using StepLoads = std::vector<LayerLoad>;  // by layer

  LayerLoad mean_of(size_t layer) const;
  std::string describe(size_t layer) const;
  void warn_of_drops();

  ExpertExpectation expected_;
  std::deque<StepLoads> recent_;
  std::vector<bool> warned_;  // by layer
  bool warned_of_drops_ = false;
};

}  // namespace hidup
