// Runs a program on this rank: in the store's arena, on its two streams, with an event per
// instruction.
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
#include "runtime/emulator.h"
#include "runtime/step_memory.h"
#include "runtime/store.h"

namespace hidup {

class Executor {
 public:
  // `plan`: this rank's, verified, and one of those that the store was made for; program and store
  // outlive the executor. `seed`: of random numbers. `emulator`: of this program and rank, where
  // steps take its times; it outlives the executor, and the device is a CPU.
  Executor(const Program& program, MemoryPlan plan, Store& store, int64_t rank, uint64_t seed,
           Emulator* emulator = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Program& program() const { return program_; }
  const MemoryPlan& plan() const { return plan_; }

  // overlapped: as the program says. in_turn: each instruction after the one before it in the list,
  // so that the times are those of instructions alone. The recorded ones: the same, but the device
  // gets the whole step at once, as recorded after the first one, where it and the communicators
  // can. recorded_untimed: overlapped and then without times(), for which the device would do more.
  enum class Order { overlapped, in_turn, recorded, recorded_in_turn, recorded_untimed };
  // Starts a step and returns at once; two may be under way where takes_next() says so.
  void start(int64_t step, double learning_rate, const StepInputs& inputs,
             Order order = Order::overlapped);
  // Whether the next step may start while this one, the only one, runs: where the device does it
  // by itself and nobody wants its times.
  bool takes_next() const { return started_ - ended_ == 1 && !timed_; }
  // Ends the step that was started first. Throws what an instruction threw.
  void wait();

  // Before the first step, unless others gave the parameters their values: from their random
  // numbers.
  void initialize_parameters();

  // Of the step that wait() ended, until the next one starts: when every instruction ran, on
  // monotonic_seconds()'s clock, or in the emulator's time (empty after a recording without times);
  // what the host looks at (StepMemory::result()); and what it left for the next step.
  std::span<const Interval> times() const { return times_; }
  std::span<const float> result(ValueId value) const { return ended().result(value); }
  const kernels::StepState& state() const { return ended().state(); }
  const Emulator* emulator() const { return emulator_; }
  // What the next step finds instead, where no step is under way.
  void set_state(const kernels::StepState& state);

  // Where no step is under way: a copy of this rank's part of an f32 value.
  std::vector<float> read(ValueId value);
  // Copies elements first .. first + count - 1 of this rank's part of a value, as they are, to or
  // from host memory.
  void read(ValueId value, int64_t first, int64_t count, std::byte* to);
  void write(ValueId value, int64_t first, int64_t count, const std::byte* from);

  // Where no step is under way: runs the step again, one instruction after the other, and looks at
  // what each writes: the first one with an output that is not finite on this rank, -1 if there is
  // none. All ranks together.
  int64_t find_not_finite(int64_t step, double learning_rate, const StepInputs& inputs);

  // The first instruction of the running step that is not done; -1 where all are, and
  // kUntimed in a step without times: for the heartbeat, from any thread.
  static constexpr int64_t kUntimed = -2;
  int64_t current_instruction() const;

 private:
  static constexpr int64_t kUnderWay = 2;  // steps at a time
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
  // `behind`: an instruction that it waits for beside its waits, or -1.
  void issue_emulated(int i, int behind);
  bool is_finite(ValueId value);
  // False where the step cannot be recorded.
  bool replay(Order order);

  const Program& program_;
  Store& store_;
  int64_t rank_;
  uint64_t seed_;
  Emulator* emulator_;
  MemoryPlan plan_;
  std::unique_ptr<Buffer> state_;
  std::vector<StepMemory> memories_;  // the steps' in turn
  std::vector<Bound> bound_;
  std::vector<Interval> times_;
  bool recordable_ = true;                                  // as far as is known
  int64_t started_ = 0;                                     // steps
  int64_t ended_ = 0;                                       // likewise
  std::atomic<bool> timed_ = true;                          // the step that was started last is
  std::map<Order, std::unique_ptr<Recording>> recordings_;  // use the events
};

}  // namespace hidup
