#include "schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"

namespace hidup::pipeline {

int Pipeline::chunks_on(int device) const {
  return static_cast<int>(std::ranges::count(device_of, device));
}

Pipeline make_pipeline(Layout layout, int chunks, int devices, int microbatches) {
  check(devices > 0 && chunks % devices == 0, "{} chunks on {} devices", chunks, devices);
  Pipeline pipeline{.devices = devices, .microbatches = microbatches};
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const bool back = layout == Layout::v && chunk / devices % 2 == 1;
    const int place = chunk % devices;
    pipeline.device_of.push_back(back ? devices - 1 - place : place);
  }
  return pipeline;
}

Pipeline pipeline_of(const Schedule& schedule, int microbatches) {
  Pipeline pipeline;
  pipeline.devices = static_cast<int>(schedule.size());
  pipeline.microbatches = microbatches;
  std::vector<int>& device_of = pipeline.device_of;
  for (int device = pipeline.devices; device-- > 0;) {  // so that the first device remains
    for (const Slot& slot : schedule[at(device)]) {
      for (const Task& task : slot.tasks) {
        device_of.resize(std::max(device_of.size(), at(task.chunk) + 1), 0);
        device_of[at(task.chunk)] = device;
      }
    }
  }
  return pipeline;
}

std::optional<Task> cause_of(const Pipeline& pipeline, const Task& task) {
  Task cause = task;
  switch (task.pass) {
    case Pass::forward:
      --cause.chunk;
      break;
    case Pass::backward:
      if (task.chunk + 1 == pipeline.chunks()) {
        cause.pass = Pass::forward;
      } else {
        ++cause.chunk;
      }
      break;
    case Pass::weights:
      cause.pass = Pass::backward;
      break;
  }
  return cause.chunk < 0 ? std::nullopt : std::optional(cause);
}

std::optional<Task> next_of(const Pipeline& pipeline, const Task& task) {
  Task next = task;
  if (task.pass == Pass::forward && task.chunk + 1 == pipeline.chunks()) {
    next.pass = Pass::backward;
  } else {
    next.chunk += task.pass == Pass::forward ? 1 : -1;
  }
  return next.chunk < 0 ? std::nullopt : std::optional(next);
}

Split::Split(const Pipeline& pipeline, const Schedule& schedule) : weights_(pipeline, 0) {
  for (const std::vector<Slot>& slots : schedule) {
    for (const Slot& slot : slots) {
      for (const Task& task : slot.tasks) {
        if (task.pass == Pass::weights) {
          weights_[task] = 1;
          any_ = true;
        }
      }
    }
  }
}

std::string cell_of(const Task& task, bool split) {
  const char pass = task.pass == Pass::forward   ? 'F'
                    : task.pass == Pass::weights ? 'W'
                    : split                      ? 'I'
                                                 : 'B';
  return fmt::format("{}{}{}", task.chunk, pass, task.microbatch);
}

}  // namespace hidup::pipeline
