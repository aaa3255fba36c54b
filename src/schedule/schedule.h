// Pipeline schedules as data: which device does which pass of which microbatch, and in which order.
//
// A model is cut into chunks, which lie on devices. Every microbatch passes forward through the
// chunks from the first to the last, and backward from the last to the first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hidup::pipeline {

// The backward pass makes the gradient of a chunk's input. The gradients of its parameters are made
// by a weights pass, or, where the chunk and microbatch have none, by the backward pass, too (P. Qi
// et al., Zero Bubble Pipeline Parallelism, ICLR 2024).
enum class Pass { forward, backward, weights };

struct Task {
  int chunk = 0;
  int microbatch = 0;
  Pass pass = Pass::forward;

  friend bool operator==(const Task&, const Task&) = default;
};

// One task, or several that a device does at the same time. An empty slot does nothing: a CSV file
// may have empty cells.
struct Slot {
  std::vector<Task> tasks;

  friend bool operator==(const Slot&, const Slot&) = default;
};

// Converts the number of a chunk, device or microbatch, for a vector.
constexpr size_t at(int64_t number) {
  return static_cast<size_t>(number);
}

using Schedule = std::vector<std::vector<Slot>>;  // per device, in order

// The tasks that a schedule must have, and the devices that do them.
struct Pipeline {
  int devices = 0;
  int microbatches = 0;
  std::vector<int> device_of;  // of every chunk

  int chunks() const { return static_cast<int>(device_of.size()); }
  int device(int chunk) const { return device_of[at(chunk)]; }
  int chunks_on(int device) const;
};

// Chunks lie on the devices in a row. After the last device the row starts again at device 0
// (loop), or turns around, as it does after device 0 (v).
enum class Layout { loop, v };

// `chunks`: a multiple of `devices`.
Pipeline make_pipeline(Layout layout, int chunks, int devices, int microbatches);

// Returns the pipeline of a schedule's tasks. A chunk lies on the device of its first task, and on
// device 0 without any. Tasks have numbers from 0 on.
Pipeline pipeline_of(const Schedule& schedule, int microbatches);

// Returns the task whose result the task needs: the same pass of the neighbouring chunk, the
// forward pass of the last chunk before its backward pass, or the backward pass before the weights
// pass. Returns nothing for the forward pass of the first chunk.
std::optional<Task> cause_of(const Pipeline& pipeline, const Task& task);

// Returns the forward or backward pass that the task's result goes to: the task whose cause_of() it
// is. Returns nothing for the backward pass of the first chunk. The task is no weights pass.
std::optional<Task> next_of(const Pipeline& pipeline, const Task& task);

// A value for every task that a pipeline may have.
template <typename Value>
class TaskTable {
 public:
  TaskTable(const Pipeline& pipeline, const Value& value)
      : chunks_(pipeline.device_of.size()),
        microbatches_(static_cast<size_t>(pipeline.microbatches)),
        values_(3 * chunks_ * microbatches_, value) {}

  Value& operator[](const Task& task) { return values_[index(task)]; }
  const Value& operator[](const Task& task) const { return values_[index(task)]; }

 private:
  size_t index(const Task& task) const {
    return (static_cast<size_t>(task.pass) * chunks_ + static_cast<size_t>(task.chunk)) *
               microbatches_ +
           static_cast<size_t>(task.microbatch);
  }

  size_t chunks_, microbatches_;
  std::vector<Value> values_;
};

// Tells which chunks and microbatches have a weights pass.
class Split {
 public:
  Split(const Pipeline& pipeline, const Schedule& schedule);
  bool operator()(const Task& task) const {
    return weights_[{task.chunk, task.microbatch, Pass::weights}] != 0;
  }
  bool any() const { return any_; }

 private:
  TaskTable<char> weights_;
  bool any_ = false;
};

// Returns the cell of a CSV file for the task: its chunk, pass and microbatch, such as "2F3". A
// backward pass is I where a weights pass follows (`split`), and B elsewhere.
std::string cell_of(const Task& task, bool split);

}  // namespace hidup::pipeline
