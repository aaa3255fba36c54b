#include "short_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "core/random.h"
#include "core/with_type.h"
#include "device/device.h"
#include "program/lower.h"
#include "program/memory.h"
#include "program/verify.h"
#include "runtime/executor.h"
#include "train/assemble.h"

namespace hidup {
namespace {

constexpr uint64_t kSeed = 3;

// Buckets have several parameters or one; half of the steps are clipped.
const LoweringOptions kOptions = {
    .bucket_bytes = 1500,
    .clip_norm = 0.5,
    .optimizer = {
        .beta1 = 0.9, .beta2 = 0.999, .decoupled = true, .epsilon = 1e-8, .weight_decay = 0.1}};

std::vector<std::vector<int32_t>> parts_of(const Program& program,
                                           const std::vector<ValueId>& values, int64_t rank,
                                           int step, int64_t vocab) {
  std::vector<std::vector<int32_t>> parts;
  for (const ValueId id : values) {
    const Value& value = program.value(id);
    const RandomStream random = random_stream(kSeed, value.name, static_cast<uint64_t>(step));
    const Region region = program.region(id, rank);
    std::vector<int32_t> part;
    for (int64_t i = 0; i < region.elements(); ++i) {
      const auto index = static_cast<uint64_t>(region.global_index(i));
      part.push_back(static_cast<int32_t>(random.word(index) % static_cast<uint64_t>(vocab)));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// Returns a rank's images in the values' floating type.
std::vector<std::vector<std::byte>> images_of(const Program& program, int64_t rank, int step) {
  std::vector<std::vector<std::byte>> parts;
  for (const ValueId id : program.images) {
    const Value& value = program.value(id);
    const RandomStream random = random_stream(kSeed, value.name, static_cast<uint64_t>(step));
    const Region region = program.region(id, rank);
    with_floating_type(value.dtype, [&](auto zero) {
      std::vector<decltype(zero)> part;
      for (int64_t i = 0; i < region.elements(); ++i) {
        const auto index = static_cast<uint64_t>(region.global_index(i));
        part.push_back(decltype(zero)(2.0F * random.uniform(index) - 1.0F));
      }
      const auto bytes = std::as_bytes(std::span(part));
      parts.emplace_back(bytes.begin(), bytes.end());
    });
  }
  return parts;
}

std::map<std::string, std::vector<float>> gradients_of(Communicator& world, Executor& executor,
                                                       float loss_scale) {
  std::map<std::string, std::vector<float>> gradients;
  const Program& program = executor.program();
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    if (program.value(id).role == Value::Role::gradient) {
      std::vector<float> whole = assemble(world, program, id, executor.read(id));
      std::ranges::for_each(whole, [=](float& element) { element /= loss_scale; });
      if (world.rank() == 0) {
        gradients[program.value(id).name] = std::move(whole);
      }
    }
  }
  return gradients;
}

// Returns experts of their own for each token.
std::vector<std::vector<int32_t>> choices_of(const Program& program, int64_t rank, int step) {
  std::vector<std::vector<int32_t>> parts;
  for (const ValueId id : program.choices) {
    const auto reader = std::ranges::find_if(program.instructions, [id](const Instruction& i) {
      return i.opcode == Opcode::route_chosen && i.inputs[1] == id;
    });
    const int64_t experts = program.value(reader->inputs[0]).shape.back();
    const RandomStream random =
        random_stream(kSeed, program.value(id).name, static_cast<uint64_t>(step));
    const Region region = program.region(id, rank);
    std::vector<int32_t> part;
    for (int64_t i = 0; i < region.elements(); ++i) {
      const int64_t index = region.global_index(i);
      const int64_t choices = region.global[2];
      const int64_t first = random.word(static_cast<uint64_t>(index / choices));
      part.push_back(static_cast<int32_t>((first + index % choices) % experts));
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

StepInputs inputs_of(const Program& program, int64_t rank, int step, int64_t vocab) {
  return {parts_of(program, program.tokens, rank, step, vocab),
          parts_of(program, program.targets, rank, step, vocab), images_of(program, rank, step),
          choices_of(program, rank, step)};
}

std::vector<std::vector<float>> loads_of(Executor& executor) {
  std::vector<std::vector<float>> loads;
  for (const ValueId load : executor.program().expert_loads) {
    loads.push_back(executor.read(load));
  }
  return loads;
}

std::vector<double> router_losses_of(Executor& executor) {
  std::vector<double> losses;
  for (const RouterSums& sums : executor.program().router_sums) {
    const RouterLosses found = router_losses(executor.read(sums.value), sums.losses);
    losses.insert(losses.end(), {found.balance, found.z});
  }
  return losses;
}

Program lower_changed(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
                      const Emulation& emulation) {
  Program program = lower(graph, strategy, options);
  if (emulation.change) {
    emulation.change(program);
  }
  return program;
}

ShortRun run(const Graph& graph, const Strategy& strategy, const LoweringOptions& options,
             Communicator& world, int steps, int64_t vocab, const AfterStep& after_step,
             int done = 0, const Emulation& emulation = {}) {
  const Program program = lower_changed(graph, strategy, options, emulation);
  const MemoryPlan plan = plan_memory(program, world.rank());
  if (!emulation.change) {
    verify(program, plan);
  }
  const Program forward_program = lower_forward(graph, strategy, options);
  const MemoryPlan forward_plan =
      plan_memory(forward_program, world.rank(), stored_values(program, plan));
  verify(forward_program, forward_plan);
  const std::unique_ptr<Device> device = make_device({});
  MeshGroups groups(world, program.mesh);
  groups.add_groups_of(program);
  groups.add_groups_of(forward_program);
  const PlannedProgram planned[] = {{program, plan}, {forward_program, forward_plan}};
  Store store(planned, *device, groups, 1);
  store.register_arena();
  std::optional<Emulator> emulator;
  if (emulation.times) {
    emulator.emplace(program, world, emulation.times(program, world.rank()),
                     EmulatorOptions{.dilation = emulation.dilation,
                                     .failed = [&device] { return device->failed(); }});
  }
  Executor executor(program, plan, store, world.rank(), kSeed, emulator ? &*emulator : nullptr);
  executor.initialize_parameters();
  Executor forward(forward_program, forward_plan, store, world.rank(), kSeed);
  const float loss_scale =
      element_dtype(program, program.instructions[0]) == DType::f16 ? 1024.0F : 1.0F;
  executor.set_state({.loss_scale = loss_scale});
  const AfterStep after = after_step ? after_step : [](Executor&, int) {};
  after(executor, done);
  ShortRun run;
  const auto forward_pass = [&] {
    const StepInputs inputs = inputs_of(forward_program, world.rank(), 1, vocab);
    forward.start(1, 0.0, inputs);
    forward.wait();
    if (world.rank() == 0) {
      run.forward_losses.push_back(static_cast<double>(forward.read(forward_program.loss)[0]));
      run.forward_loads = loads_of(forward);
    }
  };
  forward_pass();
  for (int step = done + 1; step <= steps; ++step) {
    const StepInputs inputs = inputs_of(program, world.rank(), step, vocab);
    executor.start(step, 0.01, inputs);
    executor.wait();
    if (step == 1) {
      run.gradients = gradients_of(world, executor, loss_scale);
      run.router_losses = router_losses_of(executor);
    }
    after(executor, step);
    if (world.rank() == 0) {
      const std::vector<float> sums = executor.read(program.loss);
      run.losses.push_back(static_cast<double>(sums[0]));
      run.accuracies.push_back(static_cast<double>(sums[1]));
    }
  }
  if (world.rank() == 0) {
    run.loads = loads_of(executor);
  }
  forward_pass();
  return run;
}

}  // namespace

ShortRun run_steps(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                   int64_t vocab, const AfterStep& after_step, int done, const RunOptions& chosen) {
  LoweringOptions options = kOptions;
  options.gradients_as = chosen.gradients_as;
  return run(with_slack(graph, chosen.expert_slack), strategy, options, world, steps, vocab,
             after_step, done);
}

ShortRun run_emulated(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                      int64_t vocab, const Emulation& emulation, const AfterStep& after_step) {
  return run(graph, strategy, kOptions, world, steps, vocab, after_step, 0, emulation);
}

ShortRun run_alone(const Graph& graph, int steps, int64_t vocab, const AfterStep& after_step) {
  const std::unique_ptr<Communicator> self = make_self_communicator();
  LoweringOptions options = kOptions;
  options.fuse = false;
  options.pad = false;
  return run(graph, replicated_strategy(graph, {{"ranks", 1}}), options, *self, steps, vocab,
             after_step);
}

ForwardRun run_forward(const Graph& graph, const Strategy& strategy, Communicator& world,
                       int64_t vocab) {
  const Program program = lower_forward(graph, strategy, kOptions, {.keep_logits = true});
  const MemoryPlan plan = plan_memory(program, world.rank());
  verify(program, plan);
  const std::unique_ptr<Device> device = make_device({});
  MeshGroups groups(world, program.mesh);
  groups.add_groups_of(program);
  const PlannedProgram planned{program, plan};
  Store store(std::span(&planned, 1), *device, groups, 1);
  store.register_arena();
  Executor executor(program, plan, store, world.rank(), kSeed);
  executor.initialize_parameters();
  const StepInputs inputs = inputs_of(program, world.rank(), 1, vocab);
  executor.start(1, 0.0, inputs);
  executor.wait();
  return {static_cast<double>(executor.read(program.loss)[0]), executor.read(program.logits),
          inputs.targets};
}

Strategy replicated_strategy(const Graph& graph, const Mesh& mesh) {
  Strategy strategy{.name = "replicated", .mesh = mesh};
  const Layout whole(mesh.size(), Placement::replicate());
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops.push_back({std::vector<Rule>(mesh.size(), rules_of(graph, op)[0])});
  }
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors().size()); ++id) {
    if (graph.tensor(id).role == Tensor::Role::parameter) {
      strategy.parameters.push_back({id, whole, whole});
    }
  }
  return strategy;
}

Bounds bounds_of(DType dtype) {
  if (dtype == DType::f32) {
    return {};
  }
  const double rounding = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  return {.loss = rounding, .accuracy = 1.0, .gradient = static_cast<float>(16.0 * rounding)};
}

std::string differences(const ShortRun& expected, const ShortRun& found, const Bounds& bounds) {
  std::string text;
  const auto compare = [&](const char* what, const std::vector<double>& wanted,
                           const std::vector<double>& losses) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double error = std::abs(losses.at(i) / wanted[i] - 1.0);
      if (!(error <= bounds.loss)) {
        text += fmt::format("loss of {} {}: {}, expected {}\n", what, i + 1, losses[i], wanted[i]);
      }
    }
  };
  compare("step", expected.losses, found.losses);
  compare("forward pass", expected.forward_losses, found.forward_losses);
  for (size_t i = 0; i < expected.accuracies.size(); ++i) {
    if (!(std::abs(found.accuracies.at(i) - expected.accuracies[i]) <= bounds.accuracy)) {
      text += fmt::format("accuracy of step {}: {}, expected {}\n", i + 1, found.accuracies[i],
                          expected.accuracies[i]);
    }
  }
  compare("routers", expected.router_losses, found.router_losses);
  for (const auto& [name, wanted] : expected.gradients) {
    const std::vector<float>& gradient = found.gradients.at(name);
    float size = 0.0F;
    float error = 0.0F;
    for (size_t i = 0; i < wanted.size(); ++i) {
      size = std::max(size, std::abs(wanted[i]));
      const float difference = std::abs(gradient.at(i) - wanted[i]);
      error = difference <= error ? error : difference;  // keeps a NaN
    }
    if (!(error <= bounds.gradient * size)) {
      text += fmt::format("{}: differs by {} of {}\n", name, error, size);
    }
  }
  if (expected.loads != found.loads || expected.forward_loads != found.forward_loads) {
    text += "the experts' loads differ\n";
  }
  return text;
}

}  // namespace hidup
