#include "program/lower.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "program/fuse.h"
#include "program/lowering.h"
#include "program/message_parts.h"
#include "program/padded_rows.h"
#include "program/recompute.h"
#include "program/rounds.h"
#include "program/slots.h"
#include "program/work.h"

namespace hidup {

namespace {

// Returns a chooser that follows the strategy.
RouteChooser routes_of(const Strategy& strategy) {
  return [&routes = strategy.routes,
          mesh = with_equal_shares(strategy.mesh)](const RouteDemand& demand) {
    return chosen_route(routes, demand.value.layout, demand.to, demand.bytes, mesh);
  };
}

// Runs the passes over the complete list of instructions.
Program finish(ProgramBuilder& builder, const LoweringInput& input,
               const std::vector<int>& device_of_slot) {
  const LoweringOptions& options = input.options;
  Program program = builder.take();
  choose_algorithms(program, input.strategy.algorithms);
  if (options.fuse) {
    fuse_backward(program);
  }
  if (options.pad) {
    pad_rows(program);
  }
  std::vector<std::vector<int>> also;
  if (const auto& schedule = input.strategy.schedule) {
    also = waits_of_slots(program, input.stages, schedule->axis, device_of_slot);
  }
  insert_waits(program, also);
  mark_beside_messages(program);
  estimate_work(program);
  return program;
}

// Divides the tasks of a slot into those that are woven with each other: at most one forward task,
// and one other. Two of a kind may add to the same gradients, whose first summand is written first.
std::vector<std::vector<pipeline::Task>> woven_together(const std::vector<pipeline::Task>& tasks) {
  const auto is_forward = [](const pipeline::Task& task) {
    return task.pass == pipeline::Pass::forward;
  };
  std::vector<std::vector<pipeline::Task>> runs;
  for (const pipeline::Task& task : tasks) {
    const bool joins = !runs.empty() && std::ranges::none_of(runs.back(), [&](const auto& other) {
      return is_forward(other) == is_forward(task);
    });
    if (!joins) {
      runs.emplace_back();
    }
    runs.back().push_back(task);
  }
  return runs;
}

// Writes the tasks of a step, slot by slot.
class StepWriter {
 public:
  StepWriter(const LoweringInput& input, ProgramBuilder& builder)
      : input_(input), builder_(builder), parameters_(input, builder) {}

  void run() {
    const pipeline::Schedule schedule = schedule_of(input_.graph, input_.strategy, input_.stages);
    splits_.emplace(input_.stages.pipeline, schedule);
    const std::vector<StageSlot> slots = slots_in_order(input_.graph, input_.stages, schedule);
    for (const StageSlot& slot : slots) {
      for (const Task& task : slot.tasks) {
        forward_left_ += task.pass == Pass::forward ? 1 : 0;
        ++tasks_left_[task.microbatch];
      }
    }
    for (const StageSlot& slot : slots) {
      write(slot, &slot == &slots.back());
    }
    if (results_last()) {
      write_results();
    }
    gradients_->close({.phase = Phase::backward}, 0);
    write_update(input_, parameters_, *gradients_, forward_, builder_);
    builder_.weave();
  }

  // Writes forward passes alone.
  void run_forward() {
    for (const StageSlot& slot : forward_slots(input_.stages)) {
      write(slot, false);
    }
  }

  const ForwardState& forward() const { return forward_; }
  const std::vector<int>& device_of_slot() const { return device_of_slot_; }

 private:
  using Pass = pipeline::Pass;
  using Task = pipeline::Task;
  using Place = std::pair<int, int>;  // chunk and group

  void write(const StageSlot& slot, bool is_last) {
    const size_t first = builder_.program().instructions.size();
    for (const std::vector<Task>& tasks : woven_together(slot.tasks)) {
      const int lists = input_.strategy.microbatches;
      builder_.begin(tasks.size() * static_cast<size_t>(lists));
      int list = 0;
      for (const Task& task : tasks) {
        write({task, list});
        list += lists;
      }
      builder_.weave(static_cast<int>(device_of_slot_.size()));
    }
    device_of_slot_.push_back(slot.device);
    if (input_.options.fuse) {
      fuse_epilogues(builder_.program(), first);
      fuse_residual_norms(builder_.program(), first);
    }
    for (const Task& task : slot.tasks) {
      if (task.pass == Pass::forward) {
        end_forward(task, first);
      }
      if (input_.trains && --tasks_left_.at(task.microbatch) == 0) {
        forget(task.microbatch);
      }
    }
    if (is_last) {
      gradients_->order_sums(first);
    }
  }

  void write(const TaskLists& lists) {
    if (lists.task.pass == Pass::forward) {
      write_forward(input_, lists, parameters_, forward_, builder_);
      return;
    }
    if (!gradients_) {
      gradients_.emplace(input_, parameters_, builder_);
    }
    const Task& task = lists.task;
    write_backward(input_, lists, (*splits_)(task), forward_,
                   *recomputations_.at({task.chunk, task.microbatch}), *gradients_, backward_,
                   builder_);
    if (task.pass == Pass::weights || !(*splits_)(task)) {
      recomputations_.erase({task.chunk, task.microbatch});
    }
  }

  void end_forward(const Task& task, size_t first) {
    if (input_.trains) {
      recomputations_[{task.chunk, task.microbatch}] =
          std::make_unique<Recomputation>(input_, parameters_, task, forward_, builder_, first);
    }
    parameters_.end_pass();
    if (input_.trains && --forward_left_ == 0 && !results_last()) {
      write_results();
    }
  }

  void forget(int group) {
    for (int i = 0; i < input_.strategy.microbatches; ++i) {
      forward_.values.erase(group * input_.strategy.microbatches + i);
      backward_.microbatches.erase(group * input_.strategy.microbatches + i);
    }
  }

  // Sums of results meet ranks of all stages, so in a pipeline they come after all passes. With one
  // group they come after the last forward pass, because losses of routers need them.
  bool results_last() const { return input_.strategy.schedule && input_.strategy.accumulate > 1; }
  void write_results() {
    reduce_results(input_, builder_);
    builder_.weave();
  }

  const LoweringInput& input_;
  ProgramBuilder& builder_;
  Parameters parameters_;
  ForwardState forward_;
  BackwardState backward_;
  std::optional<ParameterGradients> gradients_;  // from the first backward task on
  std::optional<pipeline::Split> splits_;
  std::map<Place, std::unique_ptr<Recomputation>> recomputations_;
  int forward_left_ = 0;           // tasks
  std::map<int, int> tasks_left_;  // of each group
  std::vector<int> device_of_slot_;
};

std::optional<size_t> pipeline_axis(const Strategy& strategy) {
  return strategy.schedule ? std::optional(strategy.schedule->axis) : std::nullopt;
}

// Gives the instructions the operations of the original model.
Program with_ops(Program program, const std::vector<OpId>& original) {
  for (Instruction& instruction : program.instructions) {
    instruction.op = instruction.op < 0 ? -1 : original[static_cast<size_t>(instruction.op)];
  }
  return program;
}

Program lower_step(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                   const RouteChooser& choose) {
  const LoweringInput input(graph, strategy, options, true);
  ProgramBuilder builder(graph.name(), strategy.mesh, choose, pipeline_axis(strategy));
  builder.reserve(4 * graph.tensors().size(), 4 * graph.ops().size(),
                  static_cast<size_t>(strategy.microbatches));  // enough for most models
  StepWriter writer(input, builder);
  writer.run();
  return finish(builder, input, writer.device_of_slot());
}

Program lower_pass(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                   const ForwardOptions& forward) {
  const LoweringInput input(graph, strategy, options, false);
  ProgramBuilder builder(graph.name(), strategy.mesh, routes_of(strategy), pipeline_axis(strategy));
  StepWriter writer(input, builder);
  writer.run_forward();
  reduce_results(input, builder);
  if (forward.keep_logits) {
    keep_logits(input, writer.forward().values.at(0), builder);
  }
  builder.weave();

  return finish(builder, input, writer.device_of_slot());
}

}  // namespace

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options) {
  return lower(graph, strategy, options, routes_of(strategy));
}

Program lower(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
              const RouteChooser& choose) {
  if (const auto model = with_rounds(graph, strategy)) {
    return with_ops(lower_step(model->graph, model->strategy, options, choose),
                    model->original_ops);
  }
  return lower_step(graph, strategy, options, choose);
}

Program lower_forward(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                      const ForwardOptions& forward) {
  InferenceModel model = without_training(graph, strategy);
  if (forward.keep_logits) {
    model.strategy.microbatches = model.strategy.accumulate = 1;
  }
  Program program;
  if (const auto rounds = with_rounds(model.graph, model.strategy)) {
    program = with_ops(lower_pass(rounds->graph, rounds->strategy, options, forward),
                       rounds->original_ops);
  } else {
    program = lower_pass(model.graph, model.strategy, options, forward);
  }
  return with_ops(std::move(program), model.original_ops);
}

}  // namespace hidup
