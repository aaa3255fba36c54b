// Host memory for a step's inputs and results. The device copies from and to it asynchronously.
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

// This rank's parts of Program::tokens, targets and choices (i32) and of images (bytes of their
// dtype).
struct StepInputs {
  std::vector<std::vector<int32_t>> tokens = {};
  std::vector<std::vector<int32_t>> targets = {};
  std::vector<std::vector<std::byte>> images = {};
  std::vector<std::vector<int32_t>> choices = {};
};

// Serves one step at a time.
class StepMemory {
 public:
  // `arena` holds the values; `state` is in device memory. All arguments outlive this.
  StepMemory(const Program& program, const MemoryPlan& plan, Device& device, std::byte* arena,
             kernels::StepState* state);

  // Enqueues the copies of the inputs, the step number and the learning rate to the device. The
  // caller may free `inputs` at once.
  void send(Stream& stream, int64_t step, double learning_rate, const StepInputs& inputs);
  // Enqueues, after the step's work, the copies of its final state and results to the host.
  void fetch(Stream& stream);
  // Blocks until these copies are done. Throws the errors of device work.
  void wait(Stream& stream) { stream.synchronize(*fetched_); }

  // Return the number of the step that was sent last and the state that was fetched last.
  int64_t step() const { return step_; }
  const kernels::StepState& state() const;
  // Returns Program::loss, gradient_norm, one of expert_loads or a value of router_sums, all f32.
  std::span<const float> result(ValueId value) const;

 private:
  // A copy between device and host, in either direction.
  struct Copy {
    std::byte* device;
    int64_t at;  // offset in host_
    int64_t bytes;
  };
  Copy place(ValueId value);

  const MemoryPlan& plan_;
  std::byte* arena_;
  kernels::StepState* state_;
  int64_t bytes_;  // bytes of host_ in use
  int64_t step_ = 0;
  std::vector<Copy> tokens_, targets_, images_, choices_;
  std::map<ValueId, Copy> results_;
  std::unique_ptr<Buffer> host_;
  std::unique_ptr<Event> fetched_;
};

}  // namespace hidup
