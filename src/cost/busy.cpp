#include "cost/busy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hidup {

namespace {

// The intervals of one rank's streams in a step.
class Streams {
 public:
  // `of_stage`: without messages between stages.
  Streams(const Program& program, std::span<const Interval> times, bool of_stage = false) {
    for (size_t i = 0; i < times.size(); ++i) {
      const StreamKind stream = program.instructions[i].stream;
      if (!communicates(stream) && times[i].end_s > times[i].start_s) {
        compute_.push_back(times[i]);
      } else if (of_stage ? stream == StreamKind::comm : communicates(stream)) {
        messages_.push_back({times[i], i});
      }
    }
    // The instructions of a stream do not overlap and are in the order of time, but messages may
    // be on several streams.
    std::ranges::stable_sort(messages_, {}, [](const Message& m) { return m.time.start_s; });
  }

  // Calls take(instruction, time, exposed time) for every message, in the order of their starts.
  // `once`: time in which several messages run belongs to the first of them.
  template <typename Take>
  void for_messages(bool once, Take take) const {
    auto first = compute_.begin();
    double reached = -std::numeric_limits<double>::infinity();
    for (const auto& [time, instruction] : messages_) {
      Interval own = time;
      own.start_s = once ? std::min(std::max(own.start_s, reached), own.end_s) : own.start_s;
      reached = std::max(reached, own.end_s);
      double exposed = own.end_s - own.start_s;
      while (first != compute_.end() && first->end_s <= time.start_s) {
        ++first;
      }
      for (auto other = first; other != compute_.end() && other->start_s < own.end_s; ++other) {
        const double beside =
            std::min(other->end_s, own.end_s) - std::max(other->start_s, own.start_s);
        exposed -= std::max(beside, 0.0);
      }
      take(instruction, own.end_s - own.start_s, exposed);
    }
  }

 private:
  struct Message {
    Interval time;
    size_t instruction = 0;
  };
  std::vector<Interval> compute_;
  std::vector<Message> messages_;
};

// Returns the time from the start of the step to the last end of an instruction that took time. The
// first instruction starts with the step, also on a rank that skips it.
double span_of(std::span<const Interval> times) {
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (const Interval& each : times) {
    first = std::min(first, each.start_s);
    last = each.end_s > each.start_s ? std::max(last, each.end_s) : last;
  }
  return std::max(last - first, 0.0);
}

}  // namespace

std::vector<double> exposed_times(const Program& program, std::span<const Interval> times) {
  std::vector<double> exposed(times.size(), 0.0);
  Streams(program, times).for_messages(false, [&](size_t instruction, double, double alone) {
    exposed[instruction] = alone;
  });
  return exposed;
}

BusyTimes busy_times(const Program& program, std::span<const Interval> times) {
  BusyTimes busy;
  for (size_t i = 0; i < times.size(); ++i) {
    if (!communicates(program.instructions[i].stream)) {
      busy.compute_s += times[i].end_s - times[i].start_s;
    }
  }
  Streams(program, times).for_messages(true, [&](size_t, double time, double alone) {
    busy.comm_s += time;
    busy.exposed_comm_s += alone;
  });
  busy.exposed_comm_s = std::max(busy.exposed_comm_s, 0.0);
  const auto leaves_stage = [](const Instruction& instruction) {
    return between_stages(instruction.stream);
  };
  double inside_s = busy.exposed_comm_s;
  if (std::ranges::any_of(program.instructions, leaves_stage)) {
    inside_s = 0.0;
    Streams(program, times, true).for_messages(true, [&](size_t, double, double alone) {
      inside_s += alone;
    });
  }
  busy.idle_s = std::max(span_of(times) - busy.compute_s - inside_s, 0.0);
  return busy;
}

double overlap_ratio(const BusyTimes& busy) {
  return busy.comm_s > 0.0 ? (busy.comm_s - busy.exposed_comm_s) / busy.comm_s : 0.0;
}

void RunBusyTimes::add(std::span<const BusyTimes> ranks) {
  if (ranks.empty() || std::isnan(ranks[0].compute_s)) {
    return;
  }
  if (steps_ == 1 && std::exchange(first_counts_, false)) {
    sums_.clear();
    steps_ = 0;
  }
  ++steps_;
  sums_.resize(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    sums_[rank].compute_s += ranks[rank].compute_s;
    sums_[rank].comm_s += ranks[rank].comm_s;
    sums_[rank].exposed_comm_s += ranks[rank].exposed_comm_s;
    sums_[rank].idle_s += ranks[rank].idle_s;
  }
}

size_t RunBusyTimes::busiest() const {
  const auto longest = std::ranges::max_element(sums_, {}, &BusyTimes::compute_s);
  return sums_.empty() ? 0 : static_cast<size_t>(longest - sums_.begin());
}

BusyTimes RunBusyTimes::mean() const {
  if (sums_.empty()) {
    return {};
  }
  const BusyTimes& sum = sums_[busiest()];
  const auto steps = static_cast<double>(steps_);
  return {sum.compute_s / steps, sum.comm_s / steps, sum.exposed_comm_s / steps,
          sum.idle_s / steps};
}

double RunBusyTimes::mean_idle() const {
  double all = 0.0;
  for (const BusyTimes& rank : sums_) {
    all += rank.idle_s;
  }
  return sums_.empty() ? 0.0
                       : all / static_cast<double>(sums_.size() * static_cast<size_t>(steps_));
}

}  // namespace hidup
