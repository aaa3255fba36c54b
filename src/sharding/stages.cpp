#include "sharding/stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/flops.h"
#include "schedule/named.h"
#include "schedule/simulate.h"
#include "schedule/verify.h"
#include "sharding/strategy.h"

namespace hidup {
namespace {

using pipeline::Pass;
using pipeline::Task;

// Finds the operations' devices and chunks.
class StageFinder {
 public:
  StageFinder(const Graph& graph, const Strategy& strategy)
      : graph_(graph), strategy_(strategy), axis_(strategy.schedule->axis) {}

  Stages run() {
    find_coordinates();
    find_cuts();
    find_levels();
    number_chunks();
    stages_.pipeline.microbatches = strategy_.accumulate;
    return std::move(stages_);
  }

 private:
  // The first coordinate of a device, and the number of cuts before an operation of it.
  using Part = std::pair<int64_t, int>;
  Part part_of(size_t op) const { return {of_op_[op].front(), cuts_before_[op]}; }

  void find_coordinates() {
    const Axis& axis = strategy_.mesh[axis_];
    std::map<int64_t, std::vector<int64_t>> owners;  // by coordinate: all of its device
    for (size_t op = 0; op < graph_.ops().size(); ++op) {
      const Rule& rule = strategy_.ops[op].rules[axis_];
      const ShareNumber share = rule.share;
      if (share.is_equal() && axis.size > 1) {
        fail(
            ExitCode::usage,
            "{} computes on all ranks of the axis {}, which is a pipeline: there a rule names some "
            "ranks, such as replicate@0",
            graph_.op_name(static_cast<OpId>(op)), axis.name);
      }
      of_op_.push_back(ranks_with(axis, share));
      for (const int64_t at : of_op_.back()) {
        const auto [known, added] = owners.try_emplace(at, of_op_.back());
        if (known->second != of_op_.back()) {
          fail(ExitCode::usage,
               "{} computes on the ranks [{}] of the axis {}, and others on [{}]: stages of a "
               "pipeline share no ranks",
               graph_.op_name(static_cast<OpId>(op)), fmt::join(of_op_.back(), " "), axis.name,
               fmt::join(known->second, " "));
        }
      }
    }
  }

  void find_cuts() {
    std::map<int64_t, int> cuts;  // by device
    for (size_t op = 0; op < of_op_.size(); ++op) {
      int& before = cuts[of_op_[op].front()];
      before += std::ranges::binary_search(strategy_.schedule->cuts, static_cast<OpId>(op)) ? 1 : 0;
      cuts_before_.push_back(before);
    }
  }

  // The level of an operation is the largest number of changes of the part on a path to it.
  void find_levels() {
    levels_.assign(graph_.ops().size(), 0);
    for_edges([&](size_t producer, size_t op) {
      const int change = part_of(producer) == part_of(op) ? 0 : 1;
      levels_[op] = std::max(levels_[op], levels_[producer] + change);
    });
    std::map<Part, std::set<int>> levels_of;
    for (size_t op = 0; op < levels_.size(); ++op) {
      levels_of[part_of(op)].insert(levels_[op]);
    }
    for (const auto& [part, levels] : levels_of) {
      for (auto level = levels.begin(); std::next(level) != levels.end(); ++level) {
        raise(part, *level, *std::next(level));
      }
    }
  }

  // Raises the operations of a part from one level to its next one, unless others need them before.
  void raise(const Part& part, int from, int to) {
    const auto is_there = [&](size_t op) { return levels_[op] == from && part_of(op) == part; };
    bool can_wait = true;
    for_edges([&](size_t producer, size_t op) {
      const bool leaves = is_there(producer) && part_of(op) != part;
      can_wait = can_wait && !(leaves && levels_[op] <= to);
    });
    for (size_t op = 0; op < levels_.size() && can_wait; ++op) {
      levels_[op] = is_there(op) ? to : levels_[op];
    }
  }

  // Calls use(producer, reader) for every activation that an operation reads, in graph order.
  template <typename Use>
  void for_edges(Use use) const {
    for (size_t op = 0; op < graph_.ops().size(); ++op) {
      for (const TensorId input : graph_.ops()[op].inputs) {
        if (const OpId producer = graph_.tensor(input).producer; producer >= 0) {
          use(static_cast<size_t>(producer), op);
        }
      }
    }
  }

  void number_chunks() {
    std::map<std::pair<int, Part>, int> numbers;  // by level and part
    for (size_t op = 0; op < levels_.size(); ++op) {
      numbers[{levels_[op], part_of(op)}] = 0;
    }
    std::map<int64_t, int> devices;  // by first coordinate
    int chunks = 0;
    for (auto& [place, number] : numbers) {
      number = chunks++;
      const int64_t first = place.second.first;
      const int device = devices.try_emplace(first, static_cast<int>(devices.size())).first->second;
      stages_.pipeline.device_of.push_back(device);
    }
    stages_.pipeline.devices = static_cast<int>(devices.size());
    stages_.coordinates.resize(devices.size());
    for (size_t op = 0; op < levels_.size(); ++op) {
      stages_.chunk_of.push_back(numbers.at({levels_[op], part_of(op)}));
      stages_.coordinates[static_cast<size_t>(devices.at(of_op_[op].front()))] = of_op_[op];
    }
  }

  const Graph& graph_;
  const Strategy& strategy_;
  const size_t axis_;
  std::vector<std::vector<int64_t>> of_op_;  // coordinates
  std::vector<int> cuts_before_;             // per operation, on its device
  std::vector<int> levels_;                  // per operation
  Stages stages_;
};

// Returns the proven schedule. Some take a second to make, and several steps of planning ask for
// the same one, so the last one is kept.
pipeline::Schedule ordered(const pipeline::NamedSchedule& named, const pipeline::Pipeline& pipeline,
                           const pipeline::ScheduleRequest& request, const pipeline::Times& times) {
  struct Last {
    std::string key;
    pipeline::Schedule schedule;
  };
  thread_local Last last;
  const std::string key =
      fmt::format("{} {} {} {} {} {}", named.name, request.k, request.live.value_or(0),
                  request.microbatches, pipeline.device_of, times.forward);
  if (key != last.key) {
    const std::vector<pipeline::Limits> limits = named_limits(named, pipeline, request);
    pipeline::Schedule made = make_schedule(named, pipeline, limits, times);
    verify(pipeline, made, limits);
    last = {key, std::move(made)};
  }
  return last.schedule;
}

std::vector<StageSlot> merged(const pipeline::Schedule& schedule,
                              const pipeline::Simulation& simulation) {
  struct Placed {
    Nanoseconds start;
    size_t device, slot;
  };
  std::vector<Placed> order;
  for (size_t device = 0; device < schedule.size(); ++device) {
    for (size_t slot = 0; slot < schedule[device].size(); ++slot) {
      if (!schedule[device][slot].tasks.empty()) {
        order.push_back({simulation.devices[device].slots[slot].start, device, slot});
      }
    }
  }
  // A task takes time, so it starts after those that it needs.
  std::ranges::stable_sort(order, {}, &Placed::start);
  std::vector<StageSlot> slots;
  slots.reserve(order.size());
  for (const Placed& placed : order) {
    slots.push_back({static_cast<int>(placed.device), schedule[placed.device][placed.slot].tasks});
  }
  return slots;
}

}  // namespace

Stages stages_of(const Graph& graph, const Strategy& strategy) {
  if (strategy.schedule) {
    return StageFinder(graph, strategy).run();
  }
  Stages one;
  one.pipeline.devices = 1;
  one.pipeline.microbatches = strategy.accumulate;
  one.pipeline.device_of.assign(1, 0);
  one.chunk_of.assign(graph.ops().size(), 0);
  one.coordinates.resize(1);
  return one;
}

pipeline::Schedule schedule_of(const Graph& graph, const Strategy& strategy, const Stages& stages) {
  if (!strategy.schedule) {  // a pass forward and a pass backward, group by group
    pipeline::Schedule schedule(1);
    for (int group = 0; group < strategy.accumulate; ++group) {
      schedule[0].push_back({{Task{0, group, Pass::forward}}});
      schedule[0].push_back({{Task{0, group, Pass::backward}}});
    }
    return schedule;
  }
  const StageSchedule& wanted = *strategy.schedule;
  if (wanted.name == kCustomSchedule) {
    if (static_cast<int>(wanted.custom.size()) != stages.pipeline.devices) {
      fail(ExitCode::usage, "the schedule has {} rows, and the operations lie on {} stages",
           wanted.custom.size(), stages.pipeline.devices);
    }
    verify(stages.pipeline, wanted.custom);
    return wanted.custom;
  }
  const pipeline::NamedSchedule* named = pipeline::find_schedule(wanted.name);
  check(named != nullptr, "unknown schedule {}", wanted.name);
  const pipeline::ScheduleRequest request{.chunks = stages.pipeline.chunks(),
                                          .devices = stages.pipeline.devices,
                                          .microbatches = stages.pipeline.microbatches,
                                          .k = wanted.k,
                                          .live = wanted.live};
  const pipeline::Pipeline expected = named_pipeline(*named, request);
  if (expected.device_of != stages.pipeline.device_of) {
    fail(ExitCode::usage,
         "the schedule {} wants the chunks of the model on the stages {}, and the operations lie "
         "on {}",
         wanted.name, fmt::join(expected.device_of, " "),
         fmt::join(stages.pipeline.device_of, " "));
  }
  return ordered(*named, expected, request, times_by_flops(graph, stages));
}

std::vector<StageSlot> slots_in_order(const Graph& graph, const Stages& stages,
                                      const pipeline::Schedule& schedule) {
  return merged(schedule, simulate(stages.pipeline, schedule, times_by_flops(graph, stages)));
}

std::vector<double> flops_of_chunks(const Graph& graph, const Stages& stages) {
  std::vector<double> flops(stages.pipeline.device_of.size(), 0.0);
  for (size_t id = 0; id < graph.ops().size(); ++id) {
    const auto chunk = static_cast<size_t>(stages.chunk_of[id]);
    const auto device = static_cast<size_t>(stages.pipeline.device_of[chunk]);
    const size_t ranks = std::max<size_t>(stages.coordinates[device].size(), 1);
    flops[chunk] += forward_flops(graph, graph.ops()[id]) / static_cast<double>(ranks);
  }
  return flops;
}

pipeline::Times times_by_flops(const Graph& graph, const Stages& stages) {
  const std::vector<double> flops = flops_of_chunks(graph, stages);
  const double most = std::max(*std::ranges::max_element(flops), 1.0);
  pipeline::Times times{.move = 1000};
  for (const double each : flops) {
    times.forward.push_back(1 + static_cast<Nanoseconds>(1e6 * each / most));
  }
  times.backward = times.weights = times.forward;
  return times;
}

std::vector<StageSlot> forward_slots(const Stages& stages) {
  const pipeline::Pipeline& pipeline = stages.pipeline;
  std::vector<std::tuple<int, int>> order;  // wave, chunk
  for (int chunk = 0; chunk < pipeline.chunks(); ++chunk) {
    for (int m = 0; m < pipeline.microbatches; ++m) {
      order.emplace_back(chunk + m, chunk);
    }
  }
  std::ranges::sort(order);
  std::vector<StageSlot> slots;
  slots.reserve(order.size());
  for (const auto& [wave, chunk] : order) {
    slots.push_back({pipeline.device(chunk), {Task{chunk, wave - chunk, Pass::forward}}});
  }
  return slots;
}

}  // namespace hidup
