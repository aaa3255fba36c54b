// What a person sees of a run: progress lines and the summary, on standard output.
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

// What tokens chose in a step, over all layers and ranks.
struct ExpertChoices {
  int64_t chosen = 0;   // slots of experts
  int64_t dropped = 0;  // of them there were none left
};

// What emulated steps are compared with.
struct EmulationScale {
  double dilation = 1.0;
  double cores = 1.0;                 // of this machine, for all ranks together
  int64_t instructions = 0;           // of a step, on all ranks
  std::optional<double> predicted_s;  // of a step
};

// What an emulated step was on this machine, of all ranks together.
struct EmulatedWork {
  double wall_s = 0.0;
  double cpu_s = 0.0;
  int64_t late = 0;  // instructions that were done after their emulated end
};

// Used on rank 0. Prints the first step of the run, the last one, and otherwise a line a
// second; and every validation.
class Report {
 public:
  // unigram_entropy: of the data, in nats; negative where it is not known.
  // emulation: where all times of steps are emulated.
  Report(int64_t steps, StepSize size, double unigram_entropy, FlopRates flops,
         const std::optional<EmulationScale>& emulation = std::nullopt);

  // After a step: its scores, the time since the previous call's step began (without
  // validation), the busy times of all ranks, NaN where they are not known, and what is shown
  // behind the loss, the same names in every step.
  void step(int64_t step, const Scores& scores, double wall_s, std::span<const BusyTimes> ranks,
            const std::vector<NamedNumber>& beside = {});

  // Before each step(), where the model has experts. Warns once, where over 20 steps they drop more
  // than a tenth.
  void experts(const ExpertChoices& choices);

  // Before each step(), where times are emulated.
  void emulated(const EmulatedWork& work);

  // After a measurement on the validation data.
  void validation(int64_t step, const Scores& scores);

  // `floor`: of the rank that has the longest. `checkpoint`: the last one's file; empty: none.
  // Warns where more than 1 % of the instructions were late.
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
  // Of the steps whose work counts: how many of the instructions were late, and this machine's time
  // for a step, undilated.
  double late_fraction() const;
  double undilated_wall() const;
  std::string describe_emulation() const;
  void print_emulation() const;
  // The dilation with which the work would be done in time.
  double advised_dilation() const;

  int64_t steps_;
  StepSize size_;
  double unigram_entropy_;
  FlopRates flops_;
  std::optional<EmulationScale> emulation_;
  EmulatedWork work_;         // sums over the steps that count: not the first, which prepares much
  int64_t worked_ = 0;        // so many
  bool first_counts_ = true;  // as long as it is the only one
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
  std::deque<double> dropped_;              // fractions of what experts get
  bool warned_of_drops_ = false;
  std::deque<double> walls_;
  std::deque<double> exposed_;
  RunBusyTimes busy_;
};

}  // namespace hidup
