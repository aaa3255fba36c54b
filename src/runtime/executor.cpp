#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "core/check.h"
#include "core/random.h"
#include "core/with_type.h"
#include "runtime/bind.h"

namespace hidup {

struct Executor::Bound {
  std::string name;
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
    : program_(program), device_(device), rank_(rank), plan_(std::move(plan)) {
  try {
    arena_ = device.allocate(plan_.bytes);
  } catch (const Error& error) {
    fail(error.code(), "{}; the largest tensors: {}", error.what(),
         largest_values(program, plan_, 5));
  }
  state_ = device.allocate(sizeof(kernels::StepState));
  streams_.push_back(device.create_stream("compute", threads));
  streams_.push_back(device.create_stream("comm", 1));

  if (groups.through_host()) {
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
    bound_.push_back({fmt::format("{} {}", name_of(instruction.opcode), instruction.name),
                      bind(instruction, binding), device.create_event(), device.create_event()});
  }
  recordable_ = !groups.through_host();
  times_.resize(bound_.size());
  initialize_parameters(seed);
}

Executor::~Executor() = default;

void Executor::initialize_parameters(uint64_t seed) {
  std::vector<float> start;
  for (size_t v = 0; v < program_.values.size(); ++v) {
    if (program_.values[v].role != Value::Role::parameter && program_.values[v].master_of < 0) {
      continue;
    }
    const DType dtype = program_.values[v].dtype;
    const Value& value = program_.values[v].master_of < 0
                             ? program_.values[v]
                             : program_.value(program_.values[v].master_of);
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
    with_floating_type(dtype, [&](auto zero) {
      std::vector<decltype(zero)> rounded(start.size());
      std::ranges::transform(start, rounded.begin(),
                             [](float element) { return decltype(zero)(element); });
      stream.copy(at(static_cast<ValueId>(v)), rounded.data(), plan_.sizes[v]);
      stream.synchronize();
    });
  }
}

void Executor::start(int64_t step, double learning_rate, const StepInputs& inputs, Order order) {
  step_range_.emplace(fmt::format("step {}", step));
  host_state_ = {.step = static_cast<uint64_t>(step),
                 .learning_rate = static_cast<float>(learning_rate),
                 .loss_scale = loss_scale_,
                 .skipped = static_cast<uint64_t>(skipped_)};
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
  if (order != Order::recorded || !issued_ || !replay()) {
    issue(order);
    issued_ = true;
  }
}

bool Executor::replay() {
  if (recordable_ && recording_ == nullptr) {
    const std::array<Stream*, kStreams> streams = {streams_[0].get(), streams_[1].get()};
    recording_ = device_.record(streams, [this] { issue(Order::recorded); });
    recordable_ = recording_ != nullptr;
  }
  if (recordable_) {
    recording_->replay();
  }
  return recordable_;
}

void Executor::issue(Order order) {
  for (size_t i = 0; i < bound_.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    Stream& stream = *streams_[static_cast<size_t>(instruction.stream)];
    for (const int wait : instruction.waits) {
      stream.wait(*bound_[static_cast<size_t>(wait)].end);
    }
    if (order == Order::in_turn && i > 0) {
      stream.wait(*bound_[i - 1].end);
    }
    const NamedRange range(bound_[i].name);
    stream.record(*bound_[i].start);
    bound_[i].issue(stream);
    stream.record(*bound_[i].end);
  }
}

void Executor::wait() {
  for (const auto& stream : streams_) {
    stream->synchronize();
  }
  step_range_.reset();
  std::ranges::transform(bound_, times_.begin(), [](const Bound& bound) {
    return Interval{bound.start->seconds(), bound.end->seconds()};
  });
}

std::vector<float> Executor::read(ValueId value) {
  check(program_.value(value).dtype == DType::f32, "{} is read as f32", program_.value(value).name);
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
