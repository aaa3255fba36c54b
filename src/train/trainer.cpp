#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "io/gradient_file.h"
#include "train/assemble.h"
#include "train/inputs.h"
#include "train/schedule.h"
#include "train/setup.h"

namespace hidup {
namespace {

DType parameter_dtype(const Program& program) {
  const auto found = std::ranges::find(program.values, Value::Role::parameter, &Value::role);
  return found == program.values.end() ? DType::f32 : found->dtype;
}

}  // namespace

Trainer::Trainer(const Deck& deck, const Batches& batches, Executor& executor, Communicator& world,
                 double start, const TrainingOutputs& outputs)
    : deck_(deck),
      batches_(batches),
      executor_(executor),
      world_(world),
      start_(start),
      outputs_(outputs),
      loss_scale_(parameter_dtype(executor.program())) {}

void Trainer::run() {
  const auto fill = [this](int64_t step, StepInputs& inputs) {
    fill_inputs(executor_.program(), world_.rank(), batches_, (step - 1) * deck_.train.batch,
                inputs);
  };
  const Executor::Order order = execution_order(deck_);
  fill(1, batch_);
  double began = monotonic_seconds();
  for (int64_t step = 1; step <= deck_.train.steps; ++step) {
    step_ = step;
    executor_.set_loss_scale(loss_scale_.value(), loss_scale_.skipped());
    executor_.start(step, learning_rate(deck_.train, step), batch_, order);
    if (step < deck_.train.steps) {
      fill(step + 1, next_);  // while the step runs
    }
    executor_.wait();
    finish_step(step);
    std::swap(batch_, next_);
    const double now = monotonic_seconds();
    write_step(now - std::exchange(began, now));
    if (outputs_.on_step) {
      outputs_.on_step(iteration_);
    }
  }
}

void Trainer::finish_step(int64_t step) {
  const Program& program = executor_.program();
  busy_ = all_gather_value(world_, busy_times(program, executor_.times()));
  iteration_ = {.step = step,
                .loss = executor_.read(program.loss)[0],
                .tokens = deck_.train.batch * deck_.model.sequence,
                .lr = learning_rate(deck_.train, step),
                .grad_norm = executor_.read(program.gradient_norm)[0]};
  if (!std::isfinite(iteration_.loss) && !std::exchange(warned_, true)) {
    log::warning("the loss of step {} is {}: the training has diverged; try a smaller train.lr",
                 step, iteration_.loss);
  }
  const float scale = loss_scale_.value();
  if (loss_scale_.update(iteration_.grad_norm)) {
    log::info("step {} is skipped: its gradients overflow with the loss scaled by {}", step, scale);
  }
  const int64_t every = deck_.train.timeline_every;
  if (step <= 3 || (every > 0 && step % every == 0)) {
    record_timeline(step);
  }
  read_expert_loads();
  if (step == 1 && !outputs_.gradients.empty()) {
    dump_gradients(scale);
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
  iteration_.wall_s = wall_s;
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
  if (outputs_.timings != nullptr) {
    outputs_.timings->append_iteration(iteration_, compute, comm, exposed,
                                       {expert_tokens_, expert_dropped_});
  }
  if (outputs_.report != nullptr) {
    outputs_.report->step(
        iteration_.step, iteration_.loss, wall_s,
        {std::ranges::max(compute), std::ranges::max(comm), std::ranges::max(exposed)});
  }
}

void Trainer::read_expert_loads() {
  const Program& program = executor_.program();
  const ExpertLayers layers = expert_layers(program);
  expert_tokens_.assign(static_cast<size_t>(layers.layers * layers.experts), 0);
  expert_dropped_ = expert_tokens_;
  for (size_t layer = 0; layer < program.expert_loads.size(); ++layer) {
    const ValueId load = program.expert_loads[layer];
    const auto experts = static_cast<size_t>(program.value(load).shape[1]);
    const std::vector<float> values = executor_.read(load);
    const size_t at = layer * static_cast<size_t>(layers.experts);
    for (size_t expert = 0; expert < experts; ++expert) {
      expert_tokens_[at + expert] = static_cast<int64_t>(values[expert]);
      expert_dropped_[at + expert] = static_cast<int64_t>(values[experts + expert]);
    }
  }
}

void Trainer::dump_gradients(float loss_scale) {
  const Program& program = executor_.program();
  std::vector<std::vector<float>> data;
  std::vector<NamedTensor> tensors;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    if (value.role != Value::Role::gradient) {
      continue;
    }
    std::vector<float> mine = executor_.read(id);
    std::ranges::for_each(mine, [=](float& element) { element /= loss_scale; });
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
