// What a step takes from the host and gives back to it, in memory of the host that the device
// copies from and to while the host goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "device/device.h"
#include "kernels/step_state.h"
#include "program/memory.h"
#include "program/program.h"

namespace hidup {

// This rank's parts of Program::tokens and targets, i32, and of images, of their floating type.
struct StepInputs {
  std::vector<std::vector<int32_t>> tokens = {};
  std::vector<std::vector<int32_t>> targets = {};
  std::vector<std::vector<std::byte>> images = {};
};

// Of one step at a time.
class StepMemory {
 public:
  // `arena`: of the values, `state`: in memory of the device. All outlive it.
  StepMemory(const Program& program, const MemoryPlan& plan, Device& device, std::byte* arena,
             kernels::StepState* state);

  // Gives the stream the copies of the inputs, of which only this memory is read later, and of what
  // the host says of the step.
  void send(Stream& stream, int64_t step, double learning_rate, const StepInputs& inputs);
  // Gives the stream, behind the step's work, the copies of the state that the step left and of its
  // results.
  void fetch(Stream& stream);
  // Blocks the host until these are there. Throws what work of the device threw.
  void wait(Stream& stream) { stream.synchronize(*fetched_); }

  // Of the step that was sent last; the state is of the one that was fetched last.
  int64_t step() const { return step_; }
  const kernels::StepState& state() const;
  // Program::loss, gradient_norm, an expert_load or the value of router_sums, which is f32.
  std::span<const float> result(ValueId value) const;

 private:
  // From the device to the host, or back.
  struct Copy {
    std::byte* device;
    int64_t at;  // in host_
    int64_t bytes;
  };
  Copy place(ValueId value);

  const MemoryPlan& plan_;
  std::byte* arena_;
  kernels::StepState* state_;
  int64_t bytes_;  // of host_, that are placed
  int64_t step_ = 0;
  std::vector<Copy> tokens_, targets_, images_;
  std::map<ValueId, Copy> results_;
  std::unique_ptr<Buffer> host_;
  std::unique_ptr<Event> fetched_;
};

}  // namespace hidup
