#include "random_schedule.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace hidup {

using pipeline::Pass;
using pipeline::Slot;
using pipeline::Task;

pipeline::Schedule random_schedule(const pipeline::Pipeline& pipeline, Draw& draw) {
  std::vector<Task> open;
  for (int chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    const bool may_split = draw.below(2) == 0;
    for (int m = 0; m < pipeline.microbatches; ++m) {
      open.push_back({chunk, m, Pass::forward});
      open.push_back({chunk, m, Pass::backward});
      if (may_split && draw.below(2) == 0) {
        open.push_back({chunk, m, Pass::weights});
      }
    }
  }
  pipeline::TaskTable<char> done(pipeline, 0);
  pipeline::Schedule schedule(static_cast<size_t>(pipeline.devices));
  const auto take = [&](std::optional<int> device) -> std::optional<Task> {
    std::vector<size_t> ready;
    for (size_t i = 0; i < open.size(); ++i) {
      const std::optional<Task> cause = cause_of(pipeline, open[i]);
      if ((!cause || done[*cause] != 0) && (!device || pipeline.device(open[i].chunk) == *device)) {
        ready.push_back(i);
      }
    }
    if (ready.empty()) {
      return std::nullopt;
    }
    const size_t at = ready[draw.below(ready.size())];
    const Task task = open[at];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    return task;
  };
  while (!open.empty()) {
    const Task first = *take(std::nullopt);
    Slot slot{{first}};
    const int device = pipeline.device(first.chunk);
    if (draw.below(6) == 0) {  // a task that needs no other of the slot
      if (const std::optional<Task> second = take(device)) {
        slot.tasks.push_back(*second);
      }
    }
    for (const Task& task : slot.tasks) {
      done[task] = 1;
    }
    std::vector<Slot>& row = schedule[static_cast<size_t>(device)];
    if (draw.below(8) == 0) {
      row.emplace_back();
    }
    row.push_back(slot);
  }
  return schedule;
}

}  // namespace hidup
