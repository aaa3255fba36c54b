// Runs a program on this rank: one arena, two streams, an event per instruction.
#pragma once

#include <cstdint>
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
#include "runtime/mesh_groups.h"

namespace hidup {

// This rank's parts of Program::tokens and targets, i32.
struct StepInputs {
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<int32_t>> targets;
};

class Executor {
 public:
  // `plan`: this rank's, verified. `groups`: of the program's mesh; they and the device outlive the
  // executor. Allocates the arena and starts the parameters from their random numbers. Throws
  // Error(out_of_memory) with the largest values where it does not fit.
  Executor(const Program& program, MemoryPlan plan, Device& device, int64_t rank,
           const MeshGroups& groups, int threads, uint64_t seed);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Program& program() const { return program_; }
  const MemoryPlan& plan() const { return plan_; }

  // overlapped: as the program says. in_turn: each instruction after the one before it in the list,
  // so that the times are those of instructions alone. recorded: overlapped, but the device gets
  // the whole step at once, as recorded after the first one, where it and the communicators can.
  enum class Order { overlapped, in_turn, recorded };
  // Starts a step and returns at once. `inputs` must stay until wait() returns.
  void start(int64_t step, double learning_rate, const StepInputs& inputs,
             Order order = Order::overlapped);
  // Ends the step. Throws what an instruction threw.
  void wait();

  // After wait(): when every instruction ran, on monotonic_seconds()'s clock.
  std::span<const Interval> times() const { return times_; }
  // From the next step on. `skipped`: steps so far in which the optimizer changed nothing.
  void set_loss_scale(float scale, int64_t skipped) {
    loss_scale_ = scale;
    skipped_ = skipped;
  }

  // A copy of this rank's part of an f32 value.
  std::vector<float> read(ValueId value);

  // The first instruction of the running step that is not done, or -1: for the
  // heartbeat, from any thread.
  int64_t current_instruction() const;

 private:
  struct Bound;

  std::byte* at(ValueId value) const {
    return arena_->data() + plan_.offsets[static_cast<size_t>(value)];
  }
  void initialize_parameters(uint64_t seed);
  void issue(Order order);
  // False where the step cannot be recorded.
  bool replay();

  const Program& program_;
  Device& device_;
  int64_t rank_;
  MemoryPlan plan_;
  std::unique_ptr<Buffer> arena_;
  std::vector<std::shared_ptr<void>> registered_;  // the arena, with those who send from it
  std::unique_ptr<Buffer> state_;
  kernels::StepState host_state_;
  float loss_scale_ = 1.0F;
  int64_t skipped_ = 0;
  std::vector<Bound> bound_;
  std::vector<Interval> times_;
  bool recordable_ = true;  // as far as is known
  bool issued_ = false;     // a step was: all that is made at first use is there
  std::vector<std::unique_ptr<Stream>> streams_;  // by StreamKind; they use all of the above
  std::unique_ptr<Recording> recording_;          // uses the streams
  std::optional<NamedRange> step_range_;          // from start() to wait()
};

}  // namespace hidup
