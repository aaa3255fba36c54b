// Runs a program on this rank: in the store's arena, on its two streams, with an event per
// instruction.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cost/busy.h"
#include "device/annotate.h"
#include "device/device.h"
#include "kernels/step_state.h"
#include "program/memory.h"
#include "program/program.h"
#include "runtime/store.h"

namespace hidup {

// This rank's parts of Program::tokens and targets, i32, and of images, of their floating type.
struct StepInputs {
  std::vector<std::vector<int32_t>> tokens = {};
  std::vector<std::vector<int32_t>> targets = {};
  std::vector<std::vector<std::byte>> images = {};
};

class Executor {
 public:
  // `plan`: this rank's, verified, and one of those that the store was made for; program and store
  // outlive the executor. `seed`: of random numbers.
  Executor(const Program& program, MemoryPlan plan, Store& store, int64_t rank, uint64_t seed);
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
  // Starts a step and returns at once. `inputs` must stay until wait() returns.
  void start(int64_t step, double learning_rate, const StepInputs& inputs,
             Order order = Order::overlapped);
  // Ends the step. Throws what an instruction threw.
  void wait();

  // Before the first step, unless others gave the parameters their values: from their random
  // numbers.
  void initialize_parameters();

  // After wait(): when every instruction ran, on monotonic_seconds()'s clock. Empty after a
  // recording without times.
  std::span<const Interval> times() const { return times_; }
  // From the next step on. `skipped`: steps so far in which the optimizer changed nothing.
  void set_loss_scale(float scale, int64_t skipped) {
    loss_scale_ = scale;
    skipped_ = skipped;
  }

  // A copy of this rank's part of an f32 value.
  std::vector<float> read(ValueId value);
  // Copies elements first .. first + count - 1 of this rank's part of a value, as they are, to or
  // from host memory.
  void read(ValueId value, int64_t first, int64_t count, std::byte* to);
  void write(ValueId value, int64_t first, int64_t count, const std::byte* from);

  // Runs the step again, one instruction after the other, and looks at what each writes: the first
  // one with an output that is not finite on this rank, -1 if there is none. All ranks together.
  int64_t find_not_finite(int64_t step, double learning_rate, const StepInputs& inputs);

  // The first instruction of the running step that is not done; -1 where all are, and
  // kUntimed in a step without times: for the heartbeat, from any thread.
  static constexpr int64_t kUntimed = -2;
  int64_t current_instruction() const;

 private:
  struct Bound;

  std::byte* at(ValueId value) const {
    return store_.data() + plan_.offsets[static_cast<size_t>(value)];
  }
  Stream& compute() const { return store_.stream(StreamKind::compute); }
  void copy_inputs(int64_t step, double learning_rate, const StepInputs& inputs);
  void issue(Order order);
  void issue_one(size_t i);
  bool is_finite(ValueId value);
  // False where the step cannot be recorded.
  bool replay(Order order);

  const Program& program_;
  Store& store_;
  int64_t rank_;
  uint64_t seed_;
  MemoryPlan plan_;
  std::unique_ptr<Buffer> state_;
  kernels::StepState host_state_;
  float loss_scale_ = 1.0F;
  int64_t skipped_ = 0;
  std::vector<Bound> bound_;
  std::vector<Interval> times_;
  bool recordable_ = true;          // as far as is known
  bool issued_ = false;             // a step was: all that is made at first use is there
  std::atomic<bool> timed_ = true;  // the step that runs is
  std::map<Order, std::unique_ptr<Recording>> recordings_;  // use the events
  std::optional<NamedRange> step_range_;                    // from start() to wait()
};

}  // namespace hidup
