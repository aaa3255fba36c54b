#include "train/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "comm/collective.h"
#include "core/check.h"
#include "core/log.h"
#include "deck/cluster_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "io/gradient_file.h"
#include "train/assemble.h"
#include "train/inputs.h"
#include "train/not_finite.h"
#include "train/schedule.h"

namespace hidup {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr BusyTimes kUnknownTimes = {
    .compute_s = kNan, .comm_s = kNan, .exposed_comm_s = kNan, .idle_s = kNan};

DType parameter_dtype(const Program& program) {
  const auto found = std::ranges::find(program.values, Value::Role::parameter, &Value::role);
  return found == program.values.end() ? DType::f32 : found->dtype;
}

double cpu_seconds() {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  rusage used{};
  check(getrusage(RUSAGE_SELF, &used) == 0, "the time of this process cannot be read");
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

Trainer::Trainer(const Deck& deck, const Batches& batches, Executor& executor, Communicator& world,
                 double start, const TrainingOutputs& outputs)
    : deck_(deck),
      batches_(batches),
      executor_(executor),
      world_(world),
      start_(executor.emulator() == nullptr ? start : 0.0),
      outputs_(outputs) {
  state_.stops = deck.train->on_nan == "stop";
  state_.adapts = parameter_dtype(executor.program()) == DType::f16;
  state_.loss_scale = state_.adapts ? kernels::StepState::kFirstScale : 1.0F;
}

void Trainer::resume(const CheckpointFile& checkpoint) {
  done_ = checkpoint.state().step;
  restore_scale(checkpoint, state_);
}

void Trainer::go_on_after(int64_t step, const kernels::StepState& state) {
  done_ = step;
  state_ = state;
}

StopReason Trainer::run() {
  exchange({.stop = caught_signal() != 0 ? StopReason::signal : StopReason::none});
  executor_.set_state(state_);
  started_ = done_;
  fill(done_ + 1);
  cpu_s_ = cpu_seconds();
  double began = monotonic_seconds();
  for (int64_t step = done_ + 1;
       step <= deck_.train->steps && (stop_ == StopReason::none || step <= started_); ++step) {
    step_ = step;
    while (started_ < step || starts_next_early(step)) {
      start_next();
    }
    executor_.wait();
    finish_step(step);
    between_steps(step);
    const double now = monotonic_seconds();
    write_step(now - std::exchange(began, now));
    if (outputs_.on_step) {
      outputs_.on_step(iteration_);
    }
  }
  if (outputs_.checkpoints != nullptr) {
    outputs_.checkpoints->finish();
  }
  return stop_;
}

bool Trainer::has_timeline(int64_t step) const {
  const int64_t every = deck_.train->timeline_every;
  return step <= done_ + 3 || (every > 0 && step % every == 0);
}

bool Trainer::is_timed(int64_t step) const {
  return has_timeline(step) || step % deck_.cluster->timed_every == 0;
}

bool Trainer::validates_after(int64_t step) const {
  const int64_t every = deck_.train->validate_every;
  return outputs_.validation != nullptr &&
         (step == deck_.train->steps || (every > 0 && step % every == 0));
}

// Uses only facts that all ranks know.
bool Trainer::saves_after(int64_t step) const {
  const Checkpoints* checkpoints = outputs_.checkpoints;
  return checkpoints != nullptr && (checkpoints->is_due(step) || save_ ||
                                    (stop_ != StopReason::none && stop_ != StopReason::change) ||
                                    (step == deck_.train->steps && checkpoints->wanted()));
}

// Returns true if the next step may start while this one runs: nothing happens between the two.
bool Trainer::starts_next_early(int64_t step) const {
  return executor_.takes_next() && step < deck_.train->steps && stop_ == StopReason::none &&
         !validates_after(step) && !saves_after(step);
}

void Trainer::fill(int64_t step) {
  fill_inputs(executor_.program(), world_.rank(), deck_, batches_, step, inputs_);
}

void Trainer::start_next() {
  const int64_t step = ++started_;
  executor_.start(step, learning_rate(*deck_.train, step), inputs_,
                  execution_order(deck_, is_timed(step)));
  if (step < deck_.train->steps) {  // while the step runs
    fill(step + 1);
  }
}

void Trainer::finish_step(int64_t step) {
  const Program& program = executor_.program();
  const std::span<const float> sums = executor_.result(program.loss);
  iteration_ = {.step = step,
                .loss = sums[0],
                .accuracy = sums[1],
                .tokens = deck_.train->batch * deck_.model->sequence,
                .lr = learning_rate(*deck_.train, step),
                .grad_norm = executor_.result(program.gradient_norm)[0]};
  exchange(status());
  if (diverged_ && deck_.train->on_nan == "stop") {
    fail_not_finite(step);
  }
  if (diverged_ && !std::exchange(warned_, true)) {
    log::warning(
        "step {} has the loss {} and the gradient norm {}: the training has diverged; try "
        "a smaller train.lr",
        step, iteration_.loss, iteration_.grad_norm);
  }
  if (has_timeline(step)) {
    record_timeline(step);
  }
  if (outputs_.stragglers != nullptr && !executor_.times().empty()) {
    outputs_.stragglers->add(step, executor_.times());
  }
  read_expert_loads();
  read_router_losses();
  if (step == 1 && !outputs_.gradients.empty()) {
    dump_gradients();
  }
  const kernels::StepState before = std::exchange(state_, executor_.state());
  iteration_.skipped = state_.skipped > before.skipped;
  if (iteration_.skipped && state_.loss_scale != before.loss_scale) {
    log::info("step {} is skipped: its gradients overflow with the loss scaled by {}", step,
              before.loss_scale);
  }
}

Trainer::Status Trainer::status() {
  const bool overflow = !std::isfinite(iteration_.grad_norm) && !state_.can_fall();
  Status mine{.busy = executor_.times().empty()
                          ? kUnknownTimes
                          : busy_times(executor_.program(), executor_.times()),
              .diverged = overflow || !std::isfinite(iteration_.loss)};
  if (executor_.emulator() != nullptr) {
    mine.late = executor_.emulator()->step().late;
    const double before = std::exchange(cpu_s_, cpu_seconds());
    mine.cpu_s = cpu_s_ - before;
  }
  if (caught_signal() != 0) {
    mine.stop = StopReason::signal;
  } else if (outputs_.stop_watch != nullptr) {
    const auto steps = static_cast<double>(1 + started_ - iteration_.step);  // until the next look
    mine.stop = outputs_.stop_watch->look(
        steps * longest_s_, [this] { return outputs_.checkpoints->expected_seconds(); });
  }
  if (mine.stop == StopReason::none && outputs_.wants_change && outputs_.wants_change()) {
    mine.stop = StopReason::change;
  }
  mine.save = outputs_.checkpoints != nullptr && outputs_.checkpoints->is_due_by_time();
  return mine;
}

void Trainer::exchange(const Status& mine) {
  busy_.clear();
  late_.clear();
  all_cpu_s_ = 0.0;
  for (const Status& status : all_gather_value(world_, mine)) {
    stop_ = stop_ == StopReason::none ? status.stop : stop_;
    diverged_ = diverged_ || status.diverged;
    save_ = busy_.empty() ? status.save : save_;  // rank 0's value
    busy_.push_back(status.busy);
    all_cpu_s_ += status.cpu_s;
    if (executor_.emulator() != nullptr) {
      late_.push_back(status.late);
    }
  }
}

void Trainer::fail_not_finite(int64_t step) {
  if (started_ > step) {  // the next step changed no state either
    executor_.wait();
  }
  executor_.set_state(state_);
  fill(step);
  hidup::fail_not_finite(
      executor_, world_, step, learning_rate(*deck_.train, step), inputs_,
      fmt::format("step {}: the loss is {}, the norm of the gradients {}", step, iteration_.loss,
                  iteration_.grad_norm),
      ". Try a smaller train.lr; with train.on_nan: skip such steps change nothing, and training "
      "goes on");
}

// Runs validation and writes checkpoints. Neither is due if the next step has already started.
void Trainer::between_steps(int64_t step) {
  if (started_ > step) {
    return;
  }
  if (validates_after(step)) {
    const double began = monotonic_seconds();
    const MeanLoss found = outputs_.validation->run();
    if (!std::isfinite(found.loss) && deck_.train->on_nan == "stop") {
      outputs_.validation->fail_not_finite(fmt::format("validation after step {}: ", step));
    }
    validation_s_ = monotonic_seconds() - began;
    if (outputs_.timings != nullptr) {
      outputs_.timings->append_validation(
          {.step = step, .loss = found.loss, .accuracy = found.accuracy});
    }
    if (outputs_.report != nullptr) {
      outputs_.report->validation(step, {found.loss, found.accuracy});
    }
  }
  if (saves_after(step)) {
    outputs_.checkpoints->save(step, state_);
  }
}

void Trainer::record_timeline(int64_t step) {
  std::vector<Interval> mine(executor_.times().begin(), executor_.times().end());
  for (Interval& interval : mine) {
    interval.start_s -= start_;
    interval.end_s -= start_;
  }
  const std::vector<std::vector<std::byte>> all = world_.gather(std::as_bytes(std::span(mine)));
  std::vector<TimelineRow> rows;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::ranges::copy(all[rank], std::as_writable_bytes(std::span(mine)).begin());
    for (size_t i = 0; i < mine.size(); ++i) {
      rows.push_back({.step = step,
                      .rank = static_cast<int64_t>(rank),
                      .instruction = static_cast<int64_t>(i),
                      .start_s = mine[i].start_s,
                      .end_s = mine[i].end_s});
    }
  }
  if (outputs_.timings != nullptr) {
    outputs_.timings->append_timeline(rows);
  }
}

void Trainer::write_step(double wall_s) {
  if (iteration_.step > done_ + 1) {  // the first step is slower
    longest_s_ = std::max(longest_s_, wall_s);
  }
  const double validation_s = std::exchange(validation_s_, 0.0);
  double reported_s = wall_s - validation_s;
  iteration_.wall_s = wall_s;
  EmulatedIteration emulated;
  if (const Emulator* emulator = executor_.emulator()) {
    const EmulatedStep& step = emulator->step();
    reported_s = to_seconds(step.next - step.start);
    iteration_.wall_s = reported_s;
    emulated = {.wall_s = to_seconds(step.wall), .moved_s = to_seconds(step.moved), .late = late_};
  }
  const auto column = [this](double BusyTimes::*member) {
    std::vector<double> values;
    for (const BusyTimes& rank : busy_) {
      values.push_back(rank.*member);
    }
    return values;
  };
  const std::vector<double> compute = column(&BusyTimes::compute_s);
  const std::vector<double> comm = column(&BusyTimes::comm_s);
  const std::vector<double> exposed = column(&BusyTimes::exposed_comm_s);
  const std::vector<double> idle = column(&BusyTimes::idle_s);
  if (outputs_.timings != nullptr) {
    outputs_.timings->append_iteration(iteration_, {compute, comm, exposed, idle},
                                       {expert_tokens_, expert_dropped_}, emulated);
  }
  if (outputs_.report == nullptr) {
    return;
  }
  if (executor_.emulator() != nullptr) {
    outputs_.report->emulated({.wall_s = emulated.wall_s,
                               .cpu_s = all_cpu_s_,
                               .late = std::accumulate(late_.begin(), late_.end(), int64_t{0})});
  }
  if (!expert_tokens_.empty()) {
    outputs_.report->experts().step(expert_tokens_, expert_dropped_,
                                    expert_layers(executor_.program()).layers);
  }
  outputs_.report->step(iteration_.step, {iteration_.loss, iteration_.accuracy}, reported_s, busy_,
                        beside_the_loss());
}

std::vector<NamedNumber> Trainer::beside_the_loss() const {
  const ExpertLayers layers = expert_layers(executor_.program());
  std::vector<NamedNumber> numbers;
  if (layers.balance_loss) {
    numbers.push_back({"balance loss", iteration_.balance_loss});
  }
  if (layers.z_loss) {
    numbers.push_back({"z loss", iteration_.z_loss});
  }
  return numbers;
}

void Trainer::read_expert_loads() {
  const Program& program = executor_.program();
  const ExpertLayers layers = expert_layers(program);
  expert_tokens_.assign(static_cast<size_t>(layers.layers * layers.experts), 0);
  expert_dropped_ = expert_tokens_;
  for (size_t layer = 0; layer < program.expert_loads.size(); ++layer) {
    const ValueId load = program.expert_loads[layer];
    const auto experts = static_cast<size_t>(program.value(load).shape[1]);
    const std::span<const float> values = executor_.result(load);
    const size_t at = layer * static_cast<size_t>(layers.experts);
    for (size_t expert = 0; expert < experts; ++expert) {
      expert_tokens_[at + expert] = static_cast<int64_t>(values[expert]);
      expert_dropped_[at + expert] = static_cast<int64_t>(values[experts + expert]);
    }
  }
}

// Adds up the losses of the layers, whose gradients are those of one sum.
void Trainer::read_router_losses() {
  for (const RouterSums& sums : executor_.program().router_sums) {
    const RouterLosses losses = router_losses(executor_.result(sums.value), sums.losses);
    iteration_.balance_loss += sums.losses.balance > 0.0 ? losses.balance : 0.0;
    iteration_.z_loss += sums.losses.z > 0.0 ? losses.z : 0.0;
  }
}

void Trainer::dump_gradients() {
  const Program& program = executor_.program();
  std::vector<std::vector<float>> data;
  std::vector<NamedTensor> tensors;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    if (value.role != Value::Role::gradient) {
      continue;
    }
    std::vector<float> mine = executor_.read(id);
    std::ranges::for_each(mine, [this](float& element) { element /= state_.loss_scale; });
    data.push_back(assemble(world_, program, id, mine));
    tensors.push_back({.name = program.value(value.gradient_of).name,
                       .shape = value.shape,
                       .data = data.back().data()});
  }
  if (world_.rank() == 0) {
    write_gradients(outputs_.gradients, outputs_.overwrite, iteration_.loss, tensors);
  }
}

}  // namespace hidup
