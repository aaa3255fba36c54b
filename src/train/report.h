// What a person sees of a run: progress lines and the summary, on standard output.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/floor.h"
#include "cost/simulate.h"
#include "program/memory.h"

namespace hidup {

// "24.1 ms per step: compute 22.5 ms, communication 3.6 ms, of it exposed 1.1 ms"
std::string describe(const Prediction& prediction);

// "the floor of 0.71 s (products at 312 Gflop/s, memory at 41 GB/s on a rank, as profiled)"
std::string describe(const StepFloor& floor);

// What the model flops utilization rests on.
struct FlopRates {
  double model = 0.0;  // flops of a step: model_flops() of the graph
  double peak = 0.0;   // flop/s of all ranks together; 0: not known
};

// Of a step or of the validation data: the mean loss in nats, and the fraction of the targets that
// have the largest logit.
struct Scores {
  double loss = 0.0;
  double accuracy = 0.0;
};

// What a step takes.
struct StepSize {
  int64_t count = 0;
  bool images = false;  // otherwise tokens; the accuracy is that of images
};

// What a step has beside its loss.
struct NamedNumber {
  std::string_view name;
  double value;
};

// Used on rank 0. Prints the first step of the run, the last one, and otherwise a line a
// second; and every validation.
class Report {
 public:
  // unigram_entropy: of the data, in nats; negative where it is not known.
  Report(int64_t steps, StepSize size, double unigram_entropy, FlopRates flops);

  // After a step: its scores, the time since the previous call's step began (without
  // validation), the slowest rank's busy times, NaN where they are not known, and what is shown
  // behind the loss, the same names in every step.
  void step(int64_t step, const Scores& scores, double wall_s, const BusyTimes& slowest,
            const std::vector<NamedNumber>& beside = {});

  // After a measurement on the validation data.
  void validation(int64_t step, const Scores& scores);

  // `floor`: of the rank that has the longest. `checkpoint`: the last one's file; empty: none.
  void summary(const MemoryPlan& plan, const std::optional<Prediction>& prediction,
               const std::optional<StepFloor>& floor, const std::string& file,
               const std::string& checkpoint) const;

 private:
  // Shows what was printed. A failure is said once and does not end the run.
  void show();
  double mean_wall() const;
  double recent_loss() const;
  // "12 345 images/s"
  std::string speed(double wall_s) const;
  // "  accuracy 51.2 %"; empty where it is not told.
  std::string describe_accuracy(double accuracy) const;

  int64_t steps_;
  StepSize size_;
  double unigram_entropy_;
  FlopRates flops_;
  int64_t done_ = 0;
  double first_loss_ = 0.0;
  double first_accuracy_ = 0.0;
  std::optional<Scores> validation_;  // the last one
  int64_t validated_ = 0;             // its step
  double total_wall_ = 0.0;
  double printed_at_ = 0.0;    // total_wall_ when the last line was printed
  bool silent_ = false;        // a line could not be printed
  std::deque<double> losses_;  // the last ones
  std::deque<double> accuracies_;
  std::vector<std::string> beside_names_;
  std::vector<std::deque<double>> beside_;  // likewise, by name
  std::deque<double> walls_;
  std::deque<double> exposed_;
  BusyTimes busy_;     // sums over the steps of which they are known
  int64_t timed_ = 0;  // so many
};

}  // namespace hidup
