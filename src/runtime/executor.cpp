#include "runtime/executor.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/check.h"
#include "core/random.h"
#include "runtime/bind.h"

namespace hidup {

struct Executor::Bound {
  std::function<void(Stream&)> issue;
  std::unique_ptr<Event> start;
  std::unique_ptr<Event> end;
};

namespace {

// Bytes of all that a collective reads and writes: as much as it can have to stage.
int64_t largest_message(const Program& program, const MemoryPlan& plan) {
  int64_t largest = 0;
  for (const Instruction& instruction : program.instructions) {
    int64_t bytes = 0;
    for (const auto* values : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId value : *values) {
        bytes += plan.sizes[static_cast<size_t>(value)];
      }
    }
    if (!collective_of(instruction.opcode).empty()) {
      largest = std::max(largest, bytes);
    }
  }
  return largest;
}

}  // namespace

Executor::Executor(const Program& program, MemoryPlan plan, Device& device, int64_t rank,
                   const MeshGroups& groups, int threads, uint64_t seed)
    : program_(program), rank_(rank), plan_(std::move(plan)) {
  try {
    arena_ = device.allocate(plan_.bytes);
  } catch (const Error& error) {
    fail(error.code(), "{}; the largest tensors: {}", error.what(),
         largest_values(program, plan_, 5));
  }
  state_ = device.allocate(sizeof(kernels::StepState));
  streams_.push_back(device.create_stream("compute", threads));
  streams_.push_back(device.create_stream("comm", 1));

  if (!groups.capturable()) {
    streams_.back()->staging(largest_message(program_, plan_));
  }
  registered_ = groups.register_memory(arena_->data(), arena_->bytes());

  const Binding binding{program_,
                        plan_,
                        rank_,
                        arena_->data(),
                        reinterpret_cast<const kernels::StepState*>(state_->data()),
                        groups,
                        seed};
  for (const Instruction& instruction : program_.instructions) {
    bound_.push_back({bind(instruction, binding), device.create_event(), device.create_event()});
  }
  times_.resize(bound_.size());
  initialize_parameters(seed);
}

Executor::~Executor() {
  streams_.clear();
}

void Executor::initialize_parameters(uint64_t seed) {
  std::vector<float> start;
  for (size_t v = 0; v < program_.values.size(); ++v) {
    const Value& value = program_.values[v];
    if (value.role != Value::Role::parameter) {
      continue;
    }
    const Region region = program_.region(static_cast<ValueId>(v), rank_);
    start.assign(static_cast<size_t>(region.elements()),
                 value.init.kind == Init::Kind::ones ? 1.0F : 0.0F);
    const bool uniform = value.init.kind == Init::Kind::uniform;
    if (uniform || value.init.kind == Init::Kind::normal) {
      const RandomStream random = random_stream(seed, "init/" + value.name);
      const auto scale = static_cast<float>(value.init.scale);
      for (size_t i = 0; i < start.size(); ++i) {
        const auto index = static_cast<uint64_t>(region.global_index(static_cast<int64_t>(i)));
        start[i] = scale * (uniform ? 2.0F * random.uniform(index) - 1.0F : random.normal(index));
      }
    }
    Stream& stream = *streams_[static_cast<size_t>(StreamKind::compute)];
    stream.copy(at(static_cast<ValueId>(v)), start.data(), plan_.sizes[v]);
    stream.synchronize();
  }
}

void Executor::start(int64_t step, double learning_rate, const StepInputs& inputs, Order order) {
  host_state_ = {.step = static_cast<uint64_t>(step),
                 .learning_rate = static_cast<float>(learning_rate)};
  Stream& compute = *streams_[static_cast<size_t>(StreamKind::compute)];
  compute.copy(state_->data(), &host_state_, sizeof(host_state_));
  const auto copy = [&](const std::vector<ValueId>& values,
                        const std::vector<std::vector<int32_t>>& parts) {
    for (size_t i = 0; i < values.size(); ++i) {
      compute.copy(at(values[i]), parts.at(i).data(), plan_.sizes[static_cast<size_t>(values[i])]);
    }
  };
  copy(program_.tokens, inputs.tokens);
  copy(program_.targets, inputs.targets);
  for (size_t i = 0; i < bound_.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    Stream& stream = *streams_[static_cast<size_t>(instruction.stream)];
    for (const int wait : instruction.waits) {
      stream.wait(*bound_[static_cast<size_t>(wait)].end);
    }
    if (order == Order::in_turn && i > 0) {
      stream.wait(*bound_[i - 1].end);
    }
    stream.record(*bound_[i].start);
    bound_[i].issue(stream);
    stream.record(*bound_[i].end);
  }
}

void Executor::wait() {
  for (const auto& stream : streams_) {
    stream->synchronize();
  }
  std::ranges::transform(bound_, times_.begin(), [](const Bound& bound) {
    return Interval{bound.start->seconds(), bound.end->seconds()};
  });
}

std::vector<float> Executor::read(ValueId value) {
  const int64_t bytes = plan_.sizes[static_cast<size_t>(value)];
  std::vector<float> copy(static_cast<size_t>(bytes / size_of(DType::f32)));
  Stream& compute = *streams_[static_cast<size_t>(StreamKind::compute)];
  compute.copy(copy.data(), at(value), bytes);
  compute.synchronize();
  return copy;
}

int64_t Executor::current_instruction() const {
  const auto found =
      std::ranges::find_if(bound_, [](const Bound& bound) { return !bound.end->reached(); });
  return found == bound_.end() ? -1 : found - bound_.begin();
}

}  // namespace hidup
