// Runs a program on this rank in the store's arena, on its streams; events time instructions.
//
// Every instruction is bound once to pointers in the arena: operations in bind_dense.cpp,
// bind_sequence.cpp and bind_experts.cpp, collectives and local copies in bind_reshard.cpp, the
// optimizer in bind_update.cpp. A step only issues them. Where the device can, the second step is
// recorded (Device::record(), a CUDA graph): from then on a step is a copy of its input and one
// launch. Most steps are another recording, in which no event has a time
// (cluster.device.timed_every).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "cost/busy.h"
#include "device/device.h"
#include "kernels/step_state.h"
#include "program/memory.h"
#include "program/program.h"
#include "program/work.h"
#include "runtime/bind.h"
#include "runtime/emulator.h"
#include "runtime/step_memory.h"
#include "runtime/store.h"

namespace hidup {

class Executor {
 public:
  // `plan`: the verified plan of this rank, one of the plans that the store was made for. `seed`:
  // seed of the random numbers. `emulator`: null, or this program's and rank's emulator, whose
  // times the steps take; it needs a CPU device. Program, store and emulator outlive the executor.
  Executor(const Program& program, MemoryPlan plan, Store& store, int64_t rank, uint64_t seed,
           Emulator* emulator = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Program& program() const { return program_; }
  const MemoryPlan& plan() const { return plan_; }
  const RankSteps& steps() const { return steps_; }

  // overlapped: the order of the program. in_turn: each instruction waits for the one before it in
  // the list, so that times() has the times of instructions that run alone. recorded*: the same
  // orders, but from the second step on the device replays a recording of the whole step, where it
  // and the communicators support recording. recorded_untimed: the overlapped order; replays have
  // no times(), which saves the device the work of timing.
  enum class Order { overlapped, in_turn, recorded, recorded_in_turn, recorded_untimed };
  // Starts a step and returns at once. Two steps may be under way if takes_next() allows it.
  void start(int64_t step, double learning_rate, const StepInputs& inputs,
             Order order = Order::overlapped);
  // Returns true if one step runs and is a replay without times; then the next one may start.
  bool takes_next() const { return started_ - ended_ == 1 && !timed_; }
  // Waits for the end of the oldest running step. Rethrows the exception of an instruction.
  void wait();

  // Initializes parameters and masters from their random numbers. Precedes the first step, unless
  // the caller writes their values.
  void initialize_parameters();

  // Return data of the step that wait() ended, valid until the next step starts: when every
  // instruction ran (for no time if this rank skips it), on the clock of monotonic_seconds() or in
  // emulated time (empty after a replay without times); a result (StepMemory::result()); and the
  // state that the step left for the next.
  std::span<const Interval> times() const { return times_; }
  std::span<const float> result(ValueId value) const { return ended().result(value); }
  const kernels::StepState& state() const { return ended().state(); }
  const Emulator* emulator() const { return emulator_; }
  // Returns the work of the instruction in that step: work_of() by the rows that experts got.
  Work work_done(size_t i) const;
  // Replaces the state that the next step finds. No step may be under way.
  void set_state(const kernels::StepState& state);

  // Returns a copy of this rank's part of an f32 value. No step may be under way.
  std::vector<float> read(ValueId value);
  // Copy elements first .. first + count - 1 of this rank's part of a value, in the value's dtype,
  // to or from host memory. No step may be under way.
  void read(ValueId value, int64_t first, int64_t count, std::byte* to);
  void write(ValueId value, int64_t first, int64_t count, const std::byte* from);

  // Collective. Runs a step again, one instruction after the other, and returns the first
  // instruction with an output that is not finite on this rank, or -1 if there is none. No step may
  // be under way.
  int64_t find_not_finite(int64_t step, double learning_rate, const StepInputs& inputs);

  // Returns the first instruction of the running step that is not done, -1 if all are done, or
  // kUntimed in a step without times. The heartbeat calls it; any thread may.
  static constexpr int64_t kUntimed = -2;
  int64_t current_instruction() const;

 private:
  static constexpr int64_t kUnderWay = 2;  // most steps at a time
  struct Bound;

  std::byte* at(ValueId value) const {
    return store_.data() + plan_.offsets[static_cast<size_t>(value)];
  }
  Stream& compute() const { return store_.stream(StreamKind::compute); }
  kernels::StepState* device_state() const {
    return reinterpret_cast<kernels::StepState*>(state_->data());
  }
  StepMemory& memory(int64_t step) { return memories_[static_cast<size_t>(step % kUnderWay)]; }
  const StepMemory& ended() const {
    return memories_[static_cast<size_t>((ended_ + kUnderWay - 1) % kUnderWay)];
  }
  void issue(Order order);
  void issue_one(size_t i);
  void issue_waits(size_t i, int behind);
  // `behind`: as in Emulator::begin().
  void issue_emulated(int i, int behind);
  bool is_finite(ValueId value);
  // Waits for the counts that the instruction needs, and binds it to operands of these sizes.
  void bind_by_counts(size_t i);
  // Copies counts that the instruction has written to the host.
  void tell_counts(size_t i);
  // `counts`: Binding::counts, or null.
  Binding binding(const std::byte* counts) const;
  int64_t rows_in_use(ValueId packed) const;
  int64_t bytes_in_use(ValueId id) const;
  // Returns false if the step cannot be recorded.
  bool replay(Order order);

  const Program& program_;
  Store& store_;
  int64_t rank_;
  RankSteps steps_;
  uint64_t seed_;
  Emulator* emulator_;
  MemoryPlan plan_;
  std::unique_ptr<Buffer> state_;
  std::vector<StepMemory> memories_;  // steps take turns with them
  std::vector<Bound> bound_;
  // Counts that the host has to know within the step: a copy, and the event after it, per value.
  struct Told {
    std::unique_ptr<Buffer> host;
    std::unique_ptr<Event> copied;
  };
  std::map<ValueId, Told> told_;
  std::vector<Interval> times_;
  bool recordable_ = true;          // false once known to be impossible
  int64_t started_ = 0;             // steps started
  int64_t ended_ = 0;               // steps ended
  std::atomic<bool> timed_ = true;  // true if the last started step is timed
  std::map<Order, std::unique_ptr<Recording>> recordings_;  // last member: they use the events
};

}  // namespace hidup
