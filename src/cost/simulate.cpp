#include "cost/simulate.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "core/check.h"
#include "cost/duration.h"
#include "program/work.h"

namespace hidup {
namespace {

constexpr double kNever = std::numeric_limits<double>::max();

class Simulation {
 public:
  Simulation(const Program& program, const RankCosts& costs) : program_(program), costs_(costs) {
    const WorkKinds kinds(program);
    std::set<std::pair<size_t, std::vector<int64_t>>>
        known;  // by class of costs and sizes of parts
    for (const int64_t rank : ranks_of_every_kind(program, costs)) {
      if (known.emplace(costs.class_of(rank), kinds.bytes_on(rank)).second) {
        ranks_.push_back(make_rank(kinds, rank));
      }
    }
    events_.resize(ranks_.size());
  }

  Prediction run() {
    while (advance()) {
    }
    Prediction prediction;
    const Rank* busiest = &ranks_.front();
    for (const Rank& rank : ranks_) {
      const BusyTimes busy = busy_times(program_, rank.times);
      if (&rank == busiest || busy.compute_s > prediction.busy.compute_s) {
        busiest = &rank;
        prediction.busy = busy;
      }
      for (const Interval& interval : rank.times) {
        prediction.iteration_s = std::max(prediction.iteration_s, interval.end_s);
      }
    }
    prediction.iteration_s += costs_.overhead_s();
    prediction.instructions = times_on(*busiest);
    return prediction;
  }

 private:
  // A stream runs or waits for the instruction `next`; `left` is the part of it that remains.
  struct StreamState {
    size_t next = 0;
    double free_at = 0.0;
    bool running = false;
    double left = 1.0;
  };
  // The next event of a stream: the end of its instruction, `rest` seconds from now at the present
  // pace, or its begin. `at` is kNever while the instruction waits for an unfinished one.
  struct Event {
    double at = kNever;
    double rest = 0.0;
  };
  struct Rank {
    std::vector<int> alike;           // per instruction, its index in
    std::vector<Duration> durations;  // one per group of alike instructions
    std::vector<Interval> times;

    const Duration& duration(int instruction) const {
      return durations[static_cast<size_t>(alike[static_cast<size_t>(instruction)])];
    }
    RankSteps steps;
    std::array<std::vector<int>, kStreams> order;  // the instructions that the rank runs
    std::vector<bool> done;
    std::array<StreamState, kStreams> streams;
  };
  static constexpr auto kCompute = static_cast<size_t>(StreamKind::compute);

  // Returns the times on the rank, and those on another rank of instructions that it skips.
  std::vector<Interval> times_on(const Rank& rank) const {
    std::vector<Interval> times = rank.times;
    for (size_t i = 0; i < times.size(); ++i) {
      const auto runs = [&](const Rank& each) { return each.steps.runs(i); };
      const auto other = std::ranges::find_if(ranks_, runs);
      if (!runs(rank) && other != ranks_.end()) {
        times[i] = other->times[i];
      }
    }
    return times;
  }

  Rank make_rank(const WorkKinds& kinds, int64_t id) const {
    Rank rank{.steps = RankSteps(program_, id)};
    const size_t count = program_.instructions.size();
    AlikeInstructions alike = kinds.on(id);
    rank.alike = std::move(alike.number);
    rank.durations.reserve(alike.first.size());
    for (const int first : alike.first) {
      const Instruction& instruction = program_.instructions[static_cast<size_t>(first)];
      rank.durations.push_back(duration_of(program_, costs_.of(id), instruction, id));
    }
    for (size_t i = 0; i < count; ++i) {
      if (rank.steps.runs(i)) {
        rank.order[static_cast<size_t>(program_.instructions[i].stream)].push_back(
            static_cast<int>(i));
      }
    }
    rank.times.resize(count);
    rank.done.assign(count, false);
    return rank;
  }

  static int current(const Rank& rank, size_t stream) {
    const size_t next = rank.streams[stream].next;
    return next < rank.order[stream].size() ? rank.order[stream][next] : -1;
  }

  // Returns the earliest begin of the stream's next instruction; kNever while that waits.
  double begin_of(const Rank& rank, size_t stream) const {
    const StreamState& state = rank.streams[stream];
    const int i = current(rank, stream);
    if (i < 0) {
      return kNever;
    }
    double begin = state.next == 0 ? 0.0 : state.free_at + costs_.launch_s();
    rank.steps.for_waits(program_.instructions[static_cast<size_t>(i)], [&](int wait) {
      const double end = rank.times[static_cast<size_t>(wait)].end_s + costs_.signal_s();
      begin = rank.done[static_cast<size_t>(wait)] ? std::max(begin, end) : kNever;
    });
    return begin;
  }

  // Returns true where all ranks that take part in the collective have reached it.
  bool all_have_come(int instruction, size_t stream) const {
    return std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return !rank.steps.runs(static_cast<size_t>(instruction)) ||
             (rank.streams[stream].running && current(rank, stream) == instruction);
    });
  }

  // Returns the seconds that the rest of the stream's instruction takes at the present pace.
  double rest_of(const Rank& rank, size_t stream) const {
    const StreamState& state = rank.streams[stream];
    const Duration& duration = rank.duration(current(rank, stream));
    if (stream != kCompute) {
      const bool beside = rank.streams[kCompute].running;
      return state.left * (beside ? duration.beside_s : duration.alone_s);
    }
    double slowdown = 1.0;
    for (size_t other = kCompute + 1; other < kStreams; ++other) {
      const int message = current(rank, other);
      if (rank.streams[other].running && all_have_come(message, other)) {
        slowdown = std::max(slowdown, rank.duration(message).slowdown);
      }
    }
    return state.left * duration.alone_s * slowdown;
  }

  // Returns rest_of(), for a collective on its slowest rank; kNever while it waits for a rank.
  double common_rest(const Rank& rank, size_t stream) const {
    const int i = current(rank, stream);
    if (stream == kCompute) {
      return rest_of(rank, stream);
    }
    if (!all_have_come(i, stream)) {
      return kNever;
    }
    double slowest = 0.0;
    for (const Rank& each : ranks_) {
      slowest = each.steps.runs(static_cast<size_t>(i)) ? std::max(slowest, rest_of(each, stream))
                                                        : slowest;
    }
    return slowest;
  }

  // Advances to the next moment at which an instruction begins or ends. Returns false when all are
  // done. The event that sets the moment takes place in it, so the number of moments is bounded
  // even where a time is so small that now_ + rest equals now_.
  bool advance() {
    double next = kNever;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (size_t s = 0; s < kStreams; ++s) {
        events_[r][s] = next_event(ranks_[r], s);
        next = std::min(next, events_[r][s].at);
      }
    }
    if (next == kNever) {
      return finished();
    }
    const double passed = next - now_;
    now_ = next;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (size_t s = 0; s < kStreams; ++s) {
        step(ranks_[r], s, events_[r][s], passed);
      }
    }
    return true;
  }

  Event next_event(const Rank& rank, size_t stream) const {
    if (!rank.streams[stream].running) {
      return {.at = std::max(begin_of(rank, stream), now_)};
    }
    const double rest = common_rest(rank, stream);
    return {.at = rest == kNever ? kNever : now_ + rest, .rest = rest};
  }

  void step(Rank& rank, size_t stream, const Event& event, double passed) {
    StreamState& state = rank.streams[stream];
    if (event.at > now_) {
      if (state.running && event.at != kNever) {
        state.left *= 1.0 - passed / event.rest;
      }
      return;
    }
    const auto i = static_cast<size_t>(current(rank, stream));
    if (!state.running) {
      state.running = true;
      state.left = 1.0;
      rank.times[i].start_s = now_;
    } else {
      rank.times[i].end_s = now_;
      rank.done[i] = true;
      state.running = false;
      state.free_at = now_;
      ++state.next;
    }
  }

  bool finished() const {
    for (const Rank& rank : ranks_) {
      for (size_t stream = 0; stream < kStreams; ++stream) {
        check(current(rank, stream) < 0, "the simulated program stands still");
      }
    }
    return false;
  }

  const Program& program_;
  const RankCosts& costs_;
  std::vector<Rank> ranks_;
  std::vector<std::array<Event, kStreams>> events_;  // per rank
  double now_ = 0.0;
};

}  // namespace

std::vector<int64_t> ranks_of_every_kind(const Program& program, const RankCosts& costs) {
  constexpr int64_t kAll = 64;
  std::vector<int64_t> ranks = distinct_ranks(program);
  if (costs.all_alike()) {
    return ranks;
  }
  // Takes the first and the last rank of every class. Takes all of few ranks, because parts and
  // classes may be distributed differently.
  const int64_t count = ranks_of(program.mesh);
  for (int64_t rank = 0; rank < count; ++rank) {
    const size_t one = costs.class_of(rank);
    if (count <= kAll || rank == 0 || rank == count - 1 || one != costs.class_of(rank - 1) ||
        one != costs.class_of(rank + 1)) {
      ranks.push_back(rank);
    }
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Prediction simulate(const Program& program, const RankCosts& costs) {
  return Simulation(program, costs).run();
}

}  // namespace hidup
