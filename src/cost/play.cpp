#include "cost/play.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/check.h"
#include "core/deadline.h"
#include "cost/duration.h"
#include "program/work.h"

namespace hidup {
namespace {

// The limit of a step, 31 years; a run has many steps.
constexpr double kLongest_s = 1e9;

}  // namespace

Durations::Durations(const Program& program, const RankCosts& costs,
                     const std::vector<BandwidthTrace>& links,
                     const std::vector<BandwidthTrace>& paces)
    : links_(links.size()),
      traces_(links),
      launch_(nanoseconds(costs.launch_s())),
      signal_(nanoseconds(costs.signal_s())),
      overhead_(nanoseconds(costs.overhead_s())) {
  check(links.empty() || links.size() == program.mesh.size(), "{} links for {} axes", links.size(),
        program.mesh.size());
  const int64_t ranks = ranks_of(program.mesh);
  check(paces.empty() || std::ssize(paces) == ranks, "{} paces for {} ranks", paces.size(), ranks);
  traces_.insert(traces_.end(), paces.begin(), paces.end());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    alone_.push_back({rank});
    steps_.emplace_back(program, rank);
    add_rank(program, costs, rank);
  }
  join_groups(program);
}

int Durations::trace_of(const Instruction& instruction, int64_t rank) const {
  if (collective_of(instruction.opcode).empty()) {
    return traces_.size() > links_ ? static_cast<int>(links_) + static_cast<int>(rank) : -1;
  }
  return links_ > 0 ? instruction.axis : -1;
}

void Durations::add_rank(const Program& program, const RankCosts& costs, int64_t rank) {
  const AlikeInstructions alike = alike_instructions(program, rank);
  std::vector<Time> unlike;
  std::vector<double> most_s;  // of each, on its slowest link
  unlike.reserve(alike.first.size());
  for (const int first : alike.first) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(first)];
    const Duration duration = duration_of(program, costs.of(rank), instruction, rank);
    const bool computes = collective_of(instruction.opcode).empty();
    const double varying_s = computes ? duration.alone_s : duration.sending_s;
    const int trace = trace_of(instruction, rank);
    most_s.push_back(duration.alone_s +
                     (trace < 0 ? duration.sending_s
                                : varying_s * traces_[static_cast<size_t>(trace)].slowest()));
    if (most_s.back() > kLongest_s) {
      unlike.emplace_back();  // the check of the sum below throws
      continue;
    }
    const Nanoseconds varying = nanoseconds(varying_s);
    unlike.push_back(
        {.fixed = nanoseconds(duration.alone_s) - varying, .varying = varying, .trace = trace});
  }
  std::vector<Time>& times = times_.emplace_back();
  times.reserve(program.instructions.size());
  double step_s = 0.0;
  for (const int number : alike.number) {
    times.push_back(unlike[static_cast<size_t>(number)]);
    step_s += most_s[static_cast<size_t>(number)];
  }
  if (step_s > kLongest_s) {
    fail(ExitCode::usage,
         "a step takes up to {:.3g} s by these costs: more than can be counted in nanoseconds",
         step_s);
  }
}

void Durations::join_groups(const Program& program) {
  std::map<std::vector<int64_t>, int> numbers;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (collective_of(instruction.opcode).empty()) {
      continue;
    }
    for (int64_t rank = 0; rank < ranks(); ++rank) {
      if (!steps(rank).runs(i)) {
        continue;
      }
      std::vector<int64_t> group = collective_group(program, instruction, rank);
      if (group.front() == rank) {  // once per group
        const auto number = static_cast<int>(groups_.size());
        const auto [known, is_new] = numbers.try_emplace(group, number);
        if (is_new) {
          groups_.push_back(std::move(group));
        }
        join(i, known->second);
      }
    }
  }
}

void Durations::join(size_t instruction, int number) {
  const std::vector<int64_t>& group = groups_[static_cast<size_t>(number)];
  Time slowest;
  for (const int64_t rank : group) {
    const Time& takes = times_[static_cast<size_t>(rank)][instruction];
    if (takes.fixed + takes.varying >= slowest.fixed + slowest.varying) {
      slowest = takes;
    }
  }
  slowest.group = number;
  for (const int64_t rank : group) {
    times_[static_cast<size_t>(rank)][instruction] = slowest;
  }
}

Nanoseconds Durations::end_of(int instruction, int64_t rank, Nanoseconds start) const {
  const Time& takes = time(instruction, rank);
  return takes.trace < 0
             ? start + takes.fixed + takes.varying
             : traces_[static_cast<size_t>(takes.trace)].end_of(start + takes.fixed, takes.varying);
}

Nanoseconds Durations::least(int instruction, int64_t rank) const {
  const Time& takes = time(instruction, rank);
  return takes.fixed + (takes.trace < 0
                            ? takes.varying
                            : traces_[static_cast<size_t>(takes.trace)].least(takes.varying));
}

const std::vector<int64_t>& Durations::group(int instruction, int64_t rank) const {
  const int number = time(instruction, rank).group;
  return number < 0 ? alone_[static_cast<size_t>(rank)] : groups_[static_cast<size_t>(number)];
}

PlayedStep play(const Program& program, const Durations& durations, Nanoseconds start) {
  const size_t ranks = static_cast<size_t>(durations.ranks());
  const size_t count = program.instructions.size();
  PlayedStep step{.ranks = std::vector(ranks, std::vector<PlayedInstruction>(count)), .end = start};
  struct StreamState {
    Nanoseconds end = 0;
    bool began = false;
  };
  std::vector<std::array<StreamState, kStreams>> streams(ranks);
  for (auto& of_rank : streams) {
    of_rank.fill({.end = start});
  }
  std::vector<Nanoseconds> ready(ranks);
  for (size_t i = 0; i < count; ++i) {
    TimeLimit::check();
    const Instruction& instruction = program.instructions[i];
    const auto stream = static_cast<size_t>(instruction.stream);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const StreamState& state = streams[rank][stream];
      const RankSteps& steps = durations.steps(static_cast<int64_t>(rank));
      ready[rank] = state.end;
      if (!steps.runs(i)) {
        continue;
      }
      ready[rank] += state.began ? durations.launch() : 0;
      steps.for_waits(instruction, [&](int wait) {
        check(wait < static_cast<int>(i), "an instruction waits for a later one");
        const Nanoseconds end = step.ranks[rank][static_cast<size_t>(wait)].end;
        ready[rank] = std::max(ready[rank], end + durations.signal());
      });
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      const int id = static_cast<int>(i);
      PlayedInstruction& played = step.ranks[rank][i];
      if (!durations.steps(static_cast<int64_t>(rank)).runs(i)) {
        played = {ready[rank], ready[rank]};
        continue;
      }
      for (const int64_t other : durations.group(id, static_cast<int64_t>(rank))) {
        played.start = std::max(played.start, ready[static_cast<size_t>(other)]);
      }
      played.end = durations.end_of(id, static_cast<int64_t>(rank), played.start);
      streams[rank][stream] = {.end = played.end, .began = true};
      step.end = std::max(step.end, played.end);
    }
  }
  return step;
}

}  // namespace hidup
