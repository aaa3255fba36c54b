#include "schedule/generate.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace hidup::pipeline {
namespace {

constexpr int kMostOvertaken = 200;  // by a pass that fills a gap

// The passes of a kind that a device still has to do.
class Queue {
 public:
  explicit Queue(const std::vector<Turn>& turns) : turns_(&turns), done_(turns.size(), 0) {}

  // Returns the place of the first one from a place on, or size() if there is none.
  size_t from(size_t place) const {
    while (place < done_.size() && done_[place] != 0) {
      ++place;
    }
    return place;
  }
  size_t first() const { return first_; }
  size_t size() const { return done_.size(); }
  const Turn& operator[](size_t place) const { return (*turns_)[place]; }

  void remove(size_t place) {
    done_[place] = 1;
    first_ = from(first_);
  }

 private:
  const std::vector<Turn>* turns_;
  std::vector<char> done_;
  size_t first_ = 0;
};

struct Worker {
  explicit Worker(const Rule::Device& rule)
      : forward(rule.forward), backward(rule.backward), limits(rule.limits) {}

  Queue forward, backward;
  Limits limits;
  std::queue<Task> weights;  // that are due
  int live = 0;
  bool filling = true;  // until its first backward pass
  bool started = false;
  Nanoseconds free = 0;  // the end of what it does
  Nanoseconds idle = 0;  // since its first start

  bool has_room(int peak) const {
    return peak < limits.live && live + static_cast<int>(weights.size()) < limits.held;
  }
};

// A place in one of a worker's queues.
struct Choice {
  Queue* queue = nullptr;
  size_t place = 0;
};

class Run {
 public:
  Run(const Pipeline& pipeline, const Times& times, const Rule& rule)
      : pipeline_(pipeline),
        times_(times),
        rule_(rule),
        schedule_(at(pipeline.devices)),
        arrivals_(pipeline, kNever),
        left_(2 * pipeline.device_of.size() * at(pipeline.microbatches)) {
    for (const Rule::Device& device : rule.devices) {
      workers_.emplace_back(device);
    }
    for (int microbatch = 0; microbatch < pipeline.microbatches; ++microbatch) {
      arrivals_[{0, microbatch, Pass::forward}] = 0;
    }
    wake(0, pipeline.device(0));
  }

  std::optional<Schedule> schedule() && {
    while (!events_.empty()) {
      const auto [now, device] = events_.top();
      events_.pop();
      if (workers_[device].free <= now) {
        work(device, now);
      }
    }
    return left_ == 0 ? std::optional(std::move(schedule_)) : std::nullopt;
  }

 private:
  using Event = std::pair<Nanoseconds, size_t>;  // time, device

  void wake(Nanoseconds time, int device) { events_.push({time, at(device)}); }

  void work(size_t device, Nanoseconds now) {
    Worker& worker = workers_[device];
    if (rule_.pairs && start_pair(device, now)) {
      return;
    }
    Nanoseconds arrival = kNever;
    if (const Choice choice = choose(worker, now, arrival); choice.queue != nullptr) {
      const Task task = (*choice.queue)[choice.place].task;
      choice.queue->remove(choice.place);
      start({{task}}, device, now);
    } else if (!worker.weights.empty() && !waits(worker, now, arrival)) {
      const Task task = worker.weights.front();
      worker.weights.pop();
      start({{task}}, device, now);
    }
  }

  bool start_pair(size_t device, Nanoseconds now) {
    Worker& worker = workers_[device];
    const size_t forward = worker.forward.first();
    const size_t backward = worker.backward.first();
    if (forward == worker.forward.size() || backward == worker.backward.size()) {
      return false;
    }
    const Task first = worker.forward[forward].task;
    const Task second = worker.backward[backward].task;
    if (arrivals_[first] > now || arrivals_[second] > now) {
      return false;
    }
    worker.forward.remove(forward);
    worker.backward.remove(backward);
    start({{first, second}}, device, now);
    return true;
  }

  // Returns the pass that can start, and sets the arrival of the next one as far as it is known.
  Choice choose(Worker& worker, Nanoseconds now, Nanoseconds& arrival) const {
    size_t forward = worker.forward.first();
    size_t backward = worker.backward.first();
    int live = worker.live;
    int peak = live;
    const bool fills = rule_.fills && worker.filling;
    const int most = fills ? kMostOvertaken : rule_.ahead;
    for (int overtaken = 0; rule_.in_order || overtaken <= most; ++overtaken) {
      const bool no_forward = forward >= worker.forward.size();
      if (no_forward && backward >= worker.backward.size()) {
        break;
      }
      const bool is_forward =
          !no_forward && (backward >= worker.backward.size() ||
                          worker.forward[forward].turn < worker.backward[backward].turn);
      const Choice choice =
          is_forward ? Choice{&worker.forward, forward} : Choice{&worker.backward, backward};
      const Task& task = (*choice.queue)[choice.place].task;
      if (!is_forward || worker.has_room(peak)) {
        if (arrivals_[task] <= now) {
          const bool late = arrival < now + duration_of(task, rule_.split, times_);
          return fills && late ? Choice{} : choice;
        }
        arrival = std::min(arrival, arrivals_[task]);
      }
      live += is_forward ? 1 : -1;
      peak = std::max(peak, live);
      size_t& place = is_forward ? forward : backward;
      place = rule_.in_order ? choice.queue->size() : choice.queue->from(place + 1);
    }
    return {};
  }

  bool waits(const Worker& worker, Nanoseconds now, Nanoseconds arrival) const {
    return arrival < now + duration_of(worker.weights.front(), true, times_) &&
           worker.idle + arrival - worker.free <=
               std::ranges::max_element(workers_, {}, &Worker::idle)->idle;
  }

  Nanoseconds duration(const Slot& slot) const {
    if (slot.tasks.size() == 1) {
      return duration_of(slot.tasks[0], rule_.split, times_);
    }
    return times_.pair.value_or(duration_of(slot.tasks[0], false, times_) +
                                duration_of(slot.tasks[1], false, times_));
  }

  void start(Slot slot, size_t device, Nanoseconds now) {
    Worker& worker = workers_[device];
    worker.idle += worker.started ? now - worker.free : 0;
    worker.started = true;
    worker.free = now + duration(slot);
    wake(worker.free, static_cast<int>(device));
    for (const Task& task : slot.tasks) {
      if (task.pass == Pass::weights) {
        continue;
      }
      --left_;
      worker.live += task.pass == Pass::forward ? 1 : -1;
      if (task.pass == Pass::backward) {
        worker.filling = false;
        if (rule_.split && slot.tasks.size() == 1) {
          worker.weights.push({task.chunk, task.microbatch, Pass::weights});
        }
      }
      release_next(task, worker.free);
    }
    schedule_[device].push_back(std::move(slot));
  }

  // Lets the next task of the microbatch arrive.
  void release_next(const Task& task, Nanoseconds end) {
    if (const std::optional<Task> next = next_of(pipeline_, task)) {
      arrivals_[*next] = end + move_time(pipeline_, task, *next, times_);
      wake(arrivals_[*next], pipeline_.device(next->chunk));
    }
  }

  const Pipeline& pipeline_;
  const Times& times_;
  const Rule& rule_;
  std::vector<Worker> workers_;
  Schedule schedule_;
  TaskTable<Nanoseconds> arrivals_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  size_t left_;  // forward and backward passes
};

}  // namespace

std::optional<Schedule> generate(const Pipeline& pipeline, const Times& times, const Rule& rule) {
  return Run(pipeline, times, rule).schedule();
}

}  // namespace hidup::pipeline
