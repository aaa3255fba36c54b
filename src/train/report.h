// A run's output for people: progress lines and the summary, on standard output.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/busy.h"
#include "cost/floor.h"
#include "cost/simulate.h"
#include "program/memory.h"
#include "train/expert_report.h"

namespace hidup {

// "24.1 ms per step: compute 22.5 ms, communication 3.6 ms, of it exposed 1.1 ms"
std::string describe(const Prediction& prediction);

// "the least time of its computation, 0.71 s (products at 312 Gflop/s, memory at 41 GB/s on a rank,
// as profiled)"
std::string describe(const StepFloor& floor);

// The rates behind the model flops utilization.
struct FlopRates {
  double model = 0.0;  // flops of a step: model_flops() of the graph
  double peak = 0.0;   // flop/s of all ranks together; 0: unknown
};

// Mean loss in nats and fraction of targets with the largest logit, of a step or a validation.
struct Scores {
  double loss = 0.0;
  double accuracy = 0.0;
};

// The samples of a step.
struct StepSize {
  int64_t count = 0;
  bool images = false;  // images rather than tokens; only images have an accuracy
};

// A number that a step reports next to its loss.
struct NamedNumber {
  std::string_view name;
  double value;
};

// The order in which the stages of a pipeline work.
struct ScheduleIdle {
  std::string name;
  double part = 0.0;  // idle time of the stages over a step, by the schedule alone
};

// The reference for emulated steps.
struct EmulationScale {
  double dilation = 1.0;
  double cores = 1.0;                 // cores of this machine for all ranks together
  int64_t instructions = 0;           // instructions of a step, on all ranks
  std::optional<double> predicted_s;  // predicted time of a step
};

// The work of an emulated step on this machine, over all ranks.
struct EmulatedWork {
  double wall_s = 0.0;
  double cpu_s = 0.0;
  int64_t late = 0;  // instructions done after their emulated end
};

// Prints the first and the last step, a line a second in between, and every validation. For rank 0.
class Report {
 public:
  // unigram_entropy: of the data, in nats; < 0: unknown. emulation: given if times are emulated;
  // schedule: of a pipeline.
  Report(int64_t steps, StepSize size, double unigram_entropy, FlopRates flops,
         const std::optional<EmulationScale>& emulation = std::nullopt,
         std::optional<ScheduleIdle> schedule = std::nullopt, ExpertExpectation experts = {});

  // Reports a step: its scores, the time since the previous call's step began (without validation),
  // all ranks' busy times (NaN: unknown), and numbers to print after the loss, under fixed names.
  void step(int64_t step, const Scores& scores, double wall_s, std::span<const BusyTimes> ranks,
            const std::vector<NamedNumber>& beside = {});

  // Takes the loads of the experts, before each step() of a model that has any.
  ExpertReport& experts() { return experts_; }

  // Precedes each step() with emulated times.
  void emulated(const EmulatedWork& work);

  // Reports a measurement on the validation data.
  void validation(int64_t step, const Scores& scores);

  // `floor`: the longest floor of any rank. `checkpoint`: the last checkpoint file; empty: none.
  // Warns if more than 1 % of the instructions were late.
  void summary(const MemoryPlan& plan, const std::optional<Prediction>& prediction,
               const std::optional<StepFloor>& floor, const std::string& file,
               const std::string& checkpoint) const;

 private:
  // Flushes the output. Reports a failure once and does not end the run.
  void show();
  double mean_wall() const;
  double recent_loss() const;
  // Returns a text such as "12 345 images/s".
  std::string speed(double wall_s) const;
  // Returns a text such as "  accuracy 51.2 %"; empty if there is no accuracy.
  std::string describe_accuracy(double accuracy) const;
  // Return the fraction of late instructions and the undilated time per step, over counted steps.
  double late_fraction() const;
  double undilated_wall() const;
  std::string describe_emulation() const;
  void print_emulation() const;
  // Returns the dilation with which the work would be done in time.
  double advised_dilation() const;

  int64_t steps_;
  StepSize size_;
  double unigram_entropy_;
  FlopRates flops_;
  std::optional<EmulationScale> emulation_;
  std::optional<ScheduleIdle> schedule_;
  ExpertReport experts_;
  EmulatedWork work_;         // sums over the steps that count: not the first, which is slower
  int64_t worked_ = 0;        // number of steps in work_
  bool first_counts_ = true;  // true while it is the only step
  int64_t done_ = 0;
  double first_loss_ = 0.0;
  double first_accuracy_ = 0.0;
  std::optional<Scores> validation_;  // the last one
  int64_t validated_ = 0;             // step of validation_
  double total_wall_ = 0.0;
  double printed_at_ = 0.0;    // total_wall_ at the last printed line
  bool silent_ = false;        // printing failed
  std::deque<double> losses_;  // the last ones
  std::deque<double> accuracies_;
  std::vector<std::string> beside_names_;
  std::vector<std::deque<double>>
      beside_;  // recent values, by name              // fractions of the experts' choices
  std::deque<double> walls_;
  std::deque<double> exposed_;
  RunBusyTimes busy_;
};

}  // namespace hidup
