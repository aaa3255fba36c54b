#include "schedule/verify.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/check.h"
#include "schedule/csv.h"
#include "schedule/simulate.h"

namespace hidup::pipeline {
namespace {

struct Place {
  int row = -1;  // -1: nowhere
  int cell = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

class Verifier {
 public:
  Verifier(const Pipeline& pipeline, const Schedule& schedule)
      : pipeline_(pipeline), schedule_(schedule), places_(pipeline, {}) {}

  void check_tasks() {
    for_each_task([&](const Place& place, const Task& task) {
      if (task.chunk < 0 || task.chunk >= pipeline_.chunks()) {
        fail_at(place, "there is no stage {}: the stages are 0 to {}", task.chunk,
                pipeline_.chunks() - 1);
      }
      if (task.microbatch < 0 || task.microbatch >= pipeline_.microbatches) {
        fail_at(place, "there is no microbatch {}: the microbatches are 0 to {}", task.microbatch,
                pipeline_.microbatches - 1);
      }
      if (pipeline_.device(task.chunk) != place.row) {
        fail_at(place, "stage {} lies in row {}", task.chunk, pipeline_.device(task.chunk));
      }
      Place& first = places_[task];
      if (first.row >= 0) {
        fail_at(place, "the same task stands in cell {} already", first.cell);
      }
      first = place;
    });
    split_.emplace(pipeline_, schedule_);
    for (int chunk = 0; chunk < pipeline_.chunks(); ++chunk) {
      for (int microbatch = 0; microbatch < pipeline_.microbatches; ++microbatch) {
        for (const Pass pass : {Pass::forward, Pass::backward}) {
          const Task task{chunk, microbatch, pass};
          if (places_[task].row < 0) {
            fail(ExitCode::usage, "row {}: the task {} is missing", pipeline_.device(chunk),
                 name(task));
          }
        }
      }
    }
  }

  void check_order_of_rows() const {
    for_each_task([&](const Place& place, const Task& task) {
      const std::optional<Task> cause = cause_of(pipeline_, task);
      if (!cause || places_[*cause].row != place.row) {
        return;
      }
      if (places_[*cause].cell == place.cell) {
        fail_at(place, "{} needs {} of the same cell", name(task), name(*cause));
      }
      if (places_[*cause].cell > place.cell) {
        fail_at(place, "{} needs {}, which follows in cell {}", name(task), name(*cause),
                places_[*cause].cell);
      }
    });
  }

  void check_waits() const {
    const std::vector<Nanoseconds> none(pipeline_.device_of.size(), 0);
    const Simulation run =
        simulate(pipeline_, schedule_, {.forward = none, .backward = none, .weights = none});
    for (size_t row = 0; row < schedule_.size(); ++row) {
      if (run.devices[row].slots.size() < schedule_[row].size()) {
        fail(ExitCode::usage, "{}", describe_circle(run, static_cast<int>(row)));
      }
    }
  }

  void check_limits(std::span<const Limits> limits) const {
    for (size_t row = 0; row < limits.size(); ++row) {
      int live = 0;
      int held = 0;
      for (size_t cell = 0; cell < schedule_[row].size(); ++cell) {
        for (const Task& task : schedule_[row][cell].tasks) {
          live += task.pass == Pass::forward ? 1 : task.pass == Pass::backward ? -1 : 0;
          const bool last =
              task.pass == Pass::weights || (task.pass == Pass::backward && !(*split_)(task));
          held += task.pass == Pass::forward ? 1 : last ? -1 : 0;
        }
        const Place place{static_cast<int>(row), static_cast<int>(cell)};
        if (live > limits[row].live) {
          fail_at(place, "{} microbatches are live, {} may be", live, limits[row].live);
        }
        if (held > limits[row].held) {
          fail_at(place, "{} microbatches wait for a backward or weights pass, {} may", held,
                  limits[row].held);
        }
      }
    }
  }

 private:
  template <typename Visit>
  void for_each_task(const Visit& visit) const {
    for (size_t row = 0; row < schedule_.size(); ++row) {
      for (size_t cell = 0; cell < schedule_[row].size(); ++cell) {
        for (const Task& task : schedule_[row][cell].tasks) {
          visit(Place{static_cast<int>(row), static_cast<int>(cell)}, task);
        }
      }
    }
  }

  std::string name(const Task& task) const { return cell_of(task, split_ && (*split_)(task)); }

  // Returns "row 0, cell 4 (0F4)". Before all tasks are known to be in range, I is written B.
  std::string describe(const Place& place) const {
    const Slot& slot = schedule_[at(place.row)][at(place.cell)];
    return fmt::format("row {}, cell {} ({})", place.row, place.cell,
                       cell_of(slot, split_ ? &*split_ : nullptr));
  }

  template <typename... Args>
  [[noreturn]] void fail_at(const Place& place, fmt::format_string<Args...> format,
                            Args&&... args) const {
    fail(ExitCode::usage, "{}: {}", describe(place),
         fmt::format(format, std::forward<Args>(args)...));
  }

  // Follows what rows wait for, from a row that waits forever, until a row repeats.
  std::string describe_circle(const Simulation& run, int row) const {
    std::vector<Place> waiting;
    std::vector<std::string> texts;
    while (true) {
      const size_t reached = run.devices[at(row)].slots.size();
      const Place place{row, static_cast<int>(reached)};
      for (size_t i = 0; i < waiting.size(); ++i) {
        if (waiting[i] == place) {
          std::string text = "rows wait for each other";
          for (size_t j = i; j < texts.size(); ++j) {
            text += (j == i ? ": " : "; ") + texts[j];
          }
          return text;
        }
      }
      waiting.push_back(place);
      for (const Task& task : schedule_[at(row)][reached].tasks) {
        const std::optional<Task> cause = cause_of(pipeline_, task);
        const Place from = cause ? places_[*cause] : Place{};
        if (cause && from.cell >= static_cast<int>(run.devices[at(from.row)].slots.size())) {
          texts.push_back(fmt::format("{} waits for {} in cell {} of row {}", describe(place),
                                      name(*cause), from.cell, from.row));
          row = from.row;
          break;
        }
      }
    }
  }

  const Pipeline& pipeline_;
  const Schedule& schedule_;
  TaskTable<Place> places_;
  std::optional<Split> split_;
};

}  // namespace

void verify(const Pipeline& pipeline, const Schedule& schedule, std::span<const Limits> limits) {
  check(schedule.size() == at(pipeline.devices), "{} rows for {} devices", schedule.size(),
        pipeline.devices);
  Verifier verifier(pipeline, schedule);
  verifier.check_tasks();
  verifier.check_order_of_rows();
  verifier.check_waits();
  verifier.check_limits(limits);
}

}  // namespace hidup::pipeline
