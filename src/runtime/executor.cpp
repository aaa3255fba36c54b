#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "core/check.h"
#include "core/random.h"
#include "core/with_type.h"
#include "device/annotate.h"
#include "runtime/packed_rows.h"

namespace hidup {

struct Executor::Bound {
  std::string name;
  std::function<void(Stream&)> issue;
  std::unique_ptr<Event> start;
  std::unique_ptr<Event> end;
  ValueId counts = -1;  // counts_needed(); -1: bound once for all steps
};

Executor::Executor(const Program& program, MemoryPlan plan, Store& store, int64_t rank,
                   uint64_t seed, Emulator* emulator)
    : program_(program),
      store_(store),
      rank_(rank),
      steps_(program, rank),
      seed_(seed),
      emulator_(emulator),
      plan_(std::move(plan)) {
  check(plan_.bytes <= store.bytes(), "a program of {} bytes in a store of {}", plan_.bytes,
        store.bytes());
  state_ = store.device().allocate(sizeof(kernels::StepState));
  const Binding binding = this->binding(nullptr);
  for (const Instruction& instruction : program_.instructions) {
    const ValueId counts = counts_needed(program_, instruction);
    bound_.push_back({.name = fmt::format("{} {}", name_of(instruction.opcode), instruction.name),
                      .issue = counts < 0 ? bind(instruction, binding) : [](Stream&) {},
                      .start = store.device().create_event(),
                      .end = store.device().create_event(),
                      .counts = counts});
    if (counts >= 0 && !told_.contains(counts)) {
      const int64_t bytes = std::max<int64_t>(1, program_.local_bytes(counts, rank));
      told_[counts] = {store.device().allocate_host(bytes), store.device().create_event()};
    }
  }
  for (int64_t i = 0; i < kUnderWay; ++i) {
    memories_.emplace_back(program_, plan_, store.device(), store.data(), device_state());
  }
  set_state({});
  recordable_ = !store.groups().through_host() && emulator == nullptr && told_.empty();
}

Executor::~Executor() {
  for (Stream* stream : store_.streams()) {
    try {
      stream->synchronize();  // work of a failed step uses members that end now
    } catch (...) {           // wait() reports errors
    }
  }
}

void Executor::initialize_parameters() {
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
      const RandomStream random = random_stream(seed_, "init/" + value.name);
      const auto scale = static_cast<float>(value.init.scale);
      for (size_t i = 0; i < start.size(); ++i) {
        const auto index = static_cast<uint64_t>(region.global_index(static_cast<int64_t>(i)));
        start[i] = scale * (uniform ? 2.0F * random.uniform(index) - 1.0F : random.normal(index));
      }
    }
    with_floating_type(dtype, [&](auto zero) {
      std::vector<decltype(zero)> rounded(start.size());
      std::ranges::transform(start, rounded.begin(),
                             [](float element) { return decltype(zero)(element); });
      write(static_cast<ValueId>(v), 0, region.elements(),
            reinterpret_cast<const std::byte*>(rounded.data()));
    });
  }
}

void Executor::set_state(const kernels::StepState& state) {
  compute().copy(device_state(), &state, sizeof(state));
  compute().synchronize();
}

void Executor::start(int64_t step, double learning_rate, const StepInputs& inputs, Order order) {
  check(started_ == ended_ || takes_next(), "step {} starts while others run", step);
  const NamedRange range(fmt::format("step {}", step));
  if (emulator_ != nullptr) {
    emulator_->begin_step();
  }
  StepMemory& memory = this->memory(started_);
  memory.send(compute(), step, learning_rate, inputs);
  const bool recorded = order != Order::overlapped && order != Order::in_turn;
  const bool first = started_ == 0;  // creates things at first use, so it is not recorded
  if (!recorded || first || !replay(order)) {
    timed_ = true;
    issue(order);
  }
  memory.fetch(compute());
  ++started_;
}

bool Executor::replay(Order order) {
  const bool timed = order != Order::recorded_untimed;
  std::unique_ptr<Recording>& recording = recordings_[order];
  if (recordable_ && recording == nullptr) {
    recording = store_.device().record(store_.streams(), timed, [&] { issue(order); });
    recordable_ = recording != nullptr;
  }
  if (recordable_) {
    timed_ = timed;
    recording->replay();
  }
  return recordable_;
}

void Executor::issue(Order order) {
  const bool in_turn = order == Order::in_turn || order == Order::recorded_in_turn;
  for (size_t i = 0; i < bound_.size(); ++i) {
    const int behind = in_turn ? static_cast<int>(i) - 1 : -1;
    issue_waits(i, behind);
    if (emulator_ == nullptr) {
      issue_one(i);
    } else {
      issue_emulated(static_cast<int>(i), behind);
    }
  }
  // A message may bring results, so the compute stream, which fetches them, waits for the last one
  // of every stream.
  const auto& list = program_.instructions;
  for (const StreamKind kind : kAllStreams) {
    const auto last = std::ranges::find(list.rbegin(), list.rend(), kind, &Instruction::stream);
    if (communicates(kind) && last != list.rend()) {
      compute().wait(*bound_[static_cast<size_t>(list.rend() - last) - 1].end);
    }
  }
}

void Executor::issue_waits(size_t i, int behind) {
  Stream& stream = store_.stream(program_.instructions[i].stream);
  if (steps_.runs(i)) {
    steps_.for_waits(program_.instructions[i],
                     [&](int wait) { stream.wait(*bound_[static_cast<size_t>(wait)].end); });
  }
  if (behind >= 0) {
    stream.wait(*bound_[static_cast<size_t>(behind)].end);
  }
}

void Executor::issue_one(size_t i) {
  Stream& stream = store_.stream(program_.instructions[i].stream);
  const NamedRange range(bound_[i].name);
  bind_by_counts(i);
  stream.record(*bound_[i].start);
  bound_[i].issue(stream);
  stream.record(*bound_[i].end);
  tell_counts(i);
}

void Executor::bind_by_counts(size_t i) {
  const ValueId counts = bound_[i].counts;
  if (counts < 0 || !steps_.runs(i)) {
    return;
  }
  const Told& told = told_.at(counts);
  compute().synchronize(*told.copied);
  bound_[i].issue = bind(program_.instructions[i], binding(told.host->data()));
}

// The last instruction that writes the counts is followed by their copy.
void Executor::tell_counts(size_t i) {
  const Instruction& instruction = program_.instructions[i];
  for (const ValueId output : instruction.outputs) {
    const auto told = told_.find(output);
    if (told != told_.end() && steps_.runs(i)) {
      Stream& stream = store_.stream(instruction.stream);
      stream.copy(told->second.host->data(), at(output), program_.local_bytes(output, rank_));
      stream.record(*told->second.copied);
    }
  }
}

// finish() precedes the end event, so that waiting instructions know the emulated end.
void Executor::issue_emulated(int i, int behind) {
  Stream& stream = store_.stream(program_.instructions[static_cast<size_t>(i)].stream);
  Bound& bound = bound_[static_cast<size_t>(i)];
  bind_by_counts(static_cast<size_t>(i));
  stream.enqueue([this, i, behind] { emulator_->begin(i, behind); });
  stream.record(*bound.start);
  bound.issue(stream);
  stream.enqueue([this, i] { emulator_->finish(i); });
  stream.record(*bound.end);
  stream.enqueue([this, i] { emulator_->pace(i); });
  tell_counts(static_cast<size_t>(i));
}

int64_t Executor::find_not_finite(int64_t step, double learning_rate, const StepInputs& inputs) {
  int64_t found = -1;
  memory(started_).send(compute(), step, learning_rate, inputs);
  compute().synchronize();
  for (size_t i = 0; i < bound_.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    issue_one(i);
    store_.stream(instruction.stream).synchronize();
    const auto finite = [&](ValueId value) { return is_finite(value); };
    if (found < 0 && !std::ranges::all_of(instruction.outputs, finite)) {
      found = static_cast<int64_t>(i);
    }
  }
  return found;
}

Binding Executor::binding(const std::byte* counts) const {
  return {.program = program_,
          .plan = plan_,
          .rank = rank_,
          .arena = store_.data(),
          .state = device_state(),
          .groups = store_.groups(),
          .seed = seed_,
          .counts = reinterpret_cast<const int32_t*>(counts)};
}

int64_t Executor::rows_in_use(ValueId packed) const {
  const Value& value = program_.value(packed);
  const auto told = told_.find(value.packed->counts);
  const auto* counts =
      told == told_.end() ? nullptr : reinterpret_cast<const int32_t*>(told->second.host->data());
  return RowCounts(value, counts).rows(program_.region(packed, rank_));
}

// Rows that are not in use hold anything.
int64_t Executor::bytes_in_use(ValueId id) const {
  const Value& value = program_.value(id);
  return value.packed ? rows_in_use(id) * program_.local_shape(id, rank_)[3] * size_of(value.dtype)
                      : program_.local_bytes(id, rank_);
}

Work Executor::work_done(size_t i) const {
  return work_of(program_, program_.instructions[i], rank_, [&](ValueId id) {
    Shape shape = program_.expected_shape(id, rank_);
    if (program_.value(id).packed && shape[0] > 0) {
      shape[2] = (rows_in_use(id) + shape[0] / 2) / shape[0];  // of the mean expert
    }
    return shape;
  });
}

// Skips integers, message buffers (they may be partly unused) and the padding between rows.
bool Executor::is_finite(ValueId value) {
  const Value& tensor = program_.value(value);
  const int64_t bytes = bytes_in_use(value);
  if (tensor.dtype == DType::i32 || !tensor.holds.empty() || bytes == 0) {
    return true;
  }
  const Shape shape = program_.local_shape(value, rank_);
  const int64_t row = shape.empty() ? 1 : shape.back();
  const int64_t stride = shape.empty() ? 1 : program_.row_stride(value, rank_);
  return with_floating_type(tensor.dtype, [&](auto zero) {
    const int64_t count = bytes / size_of(tensor.dtype);
    std::vector<decltype(zero)> copy(static_cast<size_t>(count));
    read(value, 0, count, reinterpret_cast<std::byte*>(copy.data()));
    for (auto at = copy.begin(); at != copy.end(); at += stride) {
      if (!std::all_of(at, at + row, [](float element) { return std::isfinite(element); })) {
        return false;
      }
    }
    return true;
  });
}

void Executor::wait() {
  StepMemory& memory = this->memory(ended_);
  const NamedRange range(fmt::format("wait for step {}", memory.step()));
  times_.clear();
  if (started_ - ended_ == kUnderWay) {
    memory.wait(compute());
    ++ended_;
    return;
  }
  for (Stream* stream : store_.streams()) {
    stream->synchronize();
  }
  ended_ = started_;
  if (emulator_ != nullptr) {
    emulator_->end_step();
    times_ = emulator_->intervals();
  } else if (timed_) {
    for (size_t i = 0; i < bound_.size(); ++i) {
      const double start = bound_[i].start->seconds();
      times_.push_back({start, steps_.runs(i) ? bound_[i].end->seconds() : start});
    }
  }
}

std::vector<float> Executor::read(ValueId value) {
  check(program_.value(value).dtype == DType::f32, "{} is read as f32", program_.value(value).name);
  std::vector<float> copy(
      static_cast<size_t>(plan_.sizes[static_cast<size_t>(value)] / size_of(DType::f32)));
  read(value, 0, static_cast<int64_t>(copy.size()), reinterpret_cast<std::byte*>(copy.data()));
  return copy;
}

void Executor::read(ValueId value, int64_t first, int64_t count, std::byte* to) {
  const int64_t size = size_of(program_.value(value).dtype);
  compute().copy(to, at(value) + first * size, count * size);
  compute().synchronize();
}

void Executor::write(ValueId value, int64_t first, int64_t count, const std::byte* from) {
  const int64_t size = size_of(program_.value(value).dtype);
  compute().copy(at(value) + first * size, from, count * size);
  compute().synchronize();
}

int64_t Executor::current_instruction() const {
  if (!timed_) {
    return kUntimed;
  }
  const auto found =
      std::ranges::find_if(bound_, [](const Bound& bound) { return !bound.end->reached(); });
  return found == bound_.end() ? -1 : found - bound_.begin();
}

}  // namespace hidup
