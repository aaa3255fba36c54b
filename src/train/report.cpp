#include "train/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/log.h"
#include "core/results.h"
#include "core/units.h"

namespace hidup {
namespace {

constexpr size_t kRecent = 20;  // number of steps that count as recent

double mean(const std::deque<double>& values) {
  return values.empty() ? 0.0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

void keep_recent(std::deque<double>& values, double value) {
  values.push_back(value);
  if (values.size() > kRecent) {
    values.pop_front();
  }
}

}  // namespace

std::string describe(const Prediction& prediction) {
  return fmt::format(
      "{} per step: compute {}, communication {}, of it exposed {}",
      format_seconds(prediction.iteration_s), format_seconds(prediction.busy.compute_s),
      format_seconds(prediction.busy.comm_s), format_seconds(prediction.busy.exposed_comm_s));
}

std::string describe(const StepFloor& floor) {
  return fmt::format(
      "the least time of its computation, {} (products at {:.4g} {}flop/s, memory at {:.4g} GB/s "
      "on a rank, as profiled)",
      format_seconds(floor.seconds), (floor.product < 1e13 ? 1e-9 : 1e-12) * floor.product,
      floor.product < 1e13 ? "G" : "T", 1e-9 * floor.memory);
}

Report::Report(int64_t steps, StepSize size, double unigram_entropy, FlopRates flops,
               const std::optional<EmulationScale>& emulation, std::optional<ScheduleIdle> schedule,
               ExpertExpectation experts)
    : steps_(steps),
      size_(size),
      unigram_entropy_(unigram_entropy),
      flops_(flops),
      emulation_(emulation),
      schedule_(std::move(schedule)),
      experts_(std::move(experts)) {}

double Report::recent_loss() const {
  return mean(losses_);
}
double Report::mean_wall() const {
  return mean(walls_);
}

std::string Report::speed(double wall_s) const {
  const double count = static_cast<double>(size_.count) / std::max(wall_s, 1e-9);
  return fmt::format("{} {}/s", format_count(static_cast<int64_t>(count)),
                     size_.images ? "images" : "tokens");
}

std::string Report::describe_accuracy(double accuracy) const {
  return size_.images ? fmt::format("  accuracy {:.1f} %", 100.0 * accuracy) : "";
}

void Report::step(int64_t step, const Scores& scores, double wall_s,
                  std::span<const BusyTimes> ranks, const std::vector<NamedNumber>& beside) {
  if (done_++ == 0) {
    first_loss_ = scores.loss;
    first_accuracy_ = scores.accuracy;
  }
  total_wall_ += wall_s;
  busy_.add(ranks);
  if (!ranks.empty() && !std::isnan(ranks[0].compute_s)) {
    keep_recent(exposed_, ranks[busy_.busiest()].exposed_comm_s);
  }
  keep_recent(losses_, scores.loss);
  keep_recent(accuracies_, scores.accuracy);
  std::string text = describe_accuracy(scores.accuracy);
  beside_names_.resize(beside.size());
  beside_.resize(beside.size());
  for (size_t i = 0; i < beside.size(); ++i) {
    beside_names_[i] = beside[i].name;
    keep_recent(beside_[i], beside[i].value);
    text += fmt::format("  {} {:.4f}", beside[i].name, beside[i].value);
  }
  keep_recent(walls_, wall_s);
  if (done_ == 1 || step == steps_ || total_wall_ - printed_at_ >= 1.0) {
    printed_at_ = total_wall_;
    const int width = static_cast<int>(std::to_string(steps_).size());
    const double here = emulation_ ? emulation_->dilation * undilated_wall() : mean_wall();
    results::print("step {:>{}}/{}  loss {:.4f}{}  {:>16}  {:>9}/step  {:>9} exposed  {} left{}\n",
                   step, width, steps_, scores.loss, text, speed(mean_wall()),
                   format_seconds(mean_wall()), format_seconds(mean(exposed_)),
                   format_duration(here * static_cast<double>(steps_ - step)),
                   emulation_ ? "  " + describe_emulation() : "");
    show();
  }
}

void Report::emulated(const EmulatedWork& work) {
  if (worked_ == 1 && std::exchange(first_counts_, false)) {
    work_ = {};
    worked_ = 0;
  }
  ++worked_;
  work_.wall_s += work.wall_s;
  work_.cpu_s += work.cpu_s;
  work_.late += work.late;
}

double Report::late_fraction() const {
  const auto all = static_cast<double>(std::max<int64_t>(worked_ * emulation_->instructions, 1));
  return static_cast<double>(work_.late) / all;
}

double Report::undilated_wall() const {
  const auto steps = static_cast<double>(std::max<int64_t>(worked_, 1));
  return work_.wall_s / (steps * emulation_->dilation);
}

std::string Report::describe_emulation() const {
  const std::string predicted =
      emulation_->predicted_s
          ? fmt::format("predicted {}, ", format_seconds(*emulation_->predicted_s))
          : "";
  return fmt::format("({}here {} x {:.4g}, {:.3g} % late)", predicted,
                     format_seconds(undilated_wall()), emulation_->dilation,
                     100.0 * late_fraction());
}

// Late instructions are rare if streams use at most 40 % of the cores' time.
double Report::advised_dilation() const {
  constexpr double kLoad = 0.4;
  const double load = work_.cpu_s / std::max(work_.wall_s, 1e-9);
  return emulation_->dilation * load / (kLoad * emulation_->cores);
}

void Report::print_emulation() const {
  constexpr double kLate = 0.01;
  results::print("        emulated {}\n", describe_emulation());
  if (late_fraction() <= kLate) {
    return;
  }
  const double advised = advised_dilation();
  if (advised > emulation_->dilation) {
    log::warning(
        "{:.3g} % of the instructions were done after their emulated end: with "
        "cluster.emulate_dilation {:.2g} this machine would do them in time",
        100.0 * late_fraction(), advised);
  } else {
    log::warning(
        "{:.3g} % of the instructions were done after their emulated end, though the work "
        "would leave this machine time: it does something else, too, or they are too short "
        "for it; try cluster.emulate_dilation {:.2g}",
        100.0 * late_fraction(), 2.0 * emulation_->dilation);
  }
}

void Report::validation(int64_t step, const Scores& scores) {
  validation_ = scores;
  validated_ = step;
  const int width = static_cast<int>(std::to_string(steps_).size());
  results::print("valid {:>{}}/{}  loss {:.4f}{}\n", step, width, steps_, scores.loss,
                 describe_accuracy(scores.accuracy));
  show();
}

void Report::show() {
  if (!results::flush() && !std::exchange(silent_, true)) {
    log::warning("the run goes on, but standard output takes no more lines");
  }
}

void Report::summary(const MemoryPlan& plan, const std::optional<Prediction>& prediction,
                     const std::optional<StepFloor>& floor, const std::string& file,
                     const std::string& checkpoint) const {
  const auto steps = static_cast<double>(std::max<int64_t>(done_, 1));
  const double wall = std::max(total_wall_ / steps, 1e-9);
  results::print("\n");
  results::print("steps   {} in {}{} ({} per step, {})\n", done_, format_duration(total_wall_),
                 emulation_ ? " of emulated time" : "", format_seconds(wall), speed(wall));
  if (flops_.peak > 0.0) {
    results::print(
        "        model flops utilization {:.1f} % ({:.4g} Gflop a step, {:.4g} Gflop/s at most)\n",
        100.0 * flops_.model / (wall * flops_.peak), 1e-9 * flops_.model, 1e-9 * flops_.peak);
  }
  results::print("loss    {:.4f} at first, {:.4f} over the last {} steps (nats)\n", first_loss_,
                 recent_loss(), losses_.size());
  for (size_t i = 0; i < beside_.size(); ++i) {
    results::print("        {} {:.4f} over the last {} steps\n", beside_names_[i], mean(beside_[i]),
                   beside_[i].size());
  }
  if (validation_) {
    results::print("        validation {:.4f} after step {}, perplexity {:.4g}\n",
                   validation_->loss, validated_, std::exp(validation_->loss));
  }
  if (size_.images) {
    results::print(
        "        accuracy {:.1f} % at first, {:.1f} % over the last {} steps{}\n",
        100.0 * first_accuracy_, 100.0 * mean(accuracies_), accuracies_.size(),
        validation_ ? fmt::format("; validation {:.1f} %", 100.0 * validation_->accuracy) : "");
  }
  if (unigram_entropy_ >= 0.0) {
    const double gain = unigram_entropy_ - recent_loss();
    results::print("        unigram entropy of the data {:.4f}: the loss is {:.4f} {} it\n",
                   unigram_entropy_, std::abs(gain), gain >= 0.0 ? "below" : "above");
  }
  for (const std::string& line : experts_.summary()) {
    results::print("{}\n", line);
  }
  const BusyTimes busy = busy_.mean();
  results::print(
      "time    compute {}, communication {}, of it exposed {} (per step, busiest rank)\n",
      format_seconds(busy.compute_s), format_seconds(busy.comm_s),
      format_seconds(busy.exposed_comm_s));
  if (busy.comm_s > 0.0) {
    results::print("        overlap ratio {:.1f} % (the hidden part of communication)\n",
                   100.0 * overlap_ratio(busy));
  }
  if (schedule_) {
    results::print(
        "        idle {:.1f} %, the mean of all ranks (the schedule {} alone: {:.1f} %)\n",
        100.0 * busy_.mean_idle() / wall, schedule_->name, 100.0 * schedule_->part);
  }
  if (prediction) {
    const double difference = 100.0 * (prediction->iteration_s / wall - 1.0);
    results::print("        predicted {} ({:.1f} % {} than measured)\n", describe(*prediction),
                   std::abs(difference), difference < 0.0 ? "less" : "more");
  }
  if (emulation_) {
    print_emulation();
  }
  if (floor && floor->seconds > 0.0) {
    results::print("        {:.2f} times {}\n", wall / floor->seconds, describe(*floor));
  }
  results::print("memory  {}\n", describe(plan));
  results::print("file    {}\n", file);
  if (!checkpoint.empty()) {
    results::print("        {}\n", checkpoint);
  }
}

}  // namespace hidup
