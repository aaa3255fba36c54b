#include "app/absorb.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "app/launch.h"
#include "app/measured.h"
#include "app/profiling.h"
#include "core/check.h"
#include "core/median.h"
#include "core/numbered.h"
#include "cost/cost_model.h"
#include "cost/profile_check.h"
#include "program/message_parts.h"
#include "program/print.h"
#include "program/work.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

constexpr double kBusy = 0.9;          // of a message's time: its rank computes throughout
constexpr double kIdle = 0.02;         // of a message's time: its rank does not compute
constexpr double kSameBytes = 1.0101;  // sizes this close count as one, printed or not
constexpr double kShortest = 1e-9;     // seconds; clocks measure shorter times as 0

Interval interval_of(const TimelineRow& row) {
  return {row.start_s, row.end_s};
}

// Returns the part of an interval, 0 to 1, in which another stream of a rank was busy.
double busy_part(const Interval& interval, const std::vector<Interval>& other) {
  const double length = interval.end_s - interval.start_s;
  double busy = 0.0;
  // The instructions of a stream follow each other.
  auto each = std::ranges::lower_bound(other, interval.start_s, {}, &Interval::end_s);
  for (; each != other.end() && each->start_s < interval.end_s; ++each) {
    busy += std::min(each->end_s, interval.end_s) - std::max(each->start_s, interval.start_s);
  }
  return length > 0.0 ? busy / length : 0.0;
}

class Absorption {
 public:
  Absorption(const TimingRecord& record, const Program& program, Profile& profile)
      : program_(program),
        steps_(record),
        profile_(profile),
        before_(profile),
        ranks_(static_cast<size_t>(record.header.run.world_size)) {}

  Absorbed run() {
    for (size_t step = 0; step < steps_.count(); ++step) {
      find_streams(step);
      for (size_t i = 0; i < program_.instructions.size(); ++i) {
        if (collective_of(program_.instructions[i].opcode).empty()) {
          look_at_operation(step, i);
        } else {
          look_at_message(step, i);
        }
      }
    }
    return {.operations = take_operations(), .messages = take_messages()};
  }

 private:
  struct OperationSamples {
    Work work;
    std::vector<double> seconds;
  };
  struct MessageSamples {
    std::vector<double> alone_s, beside_s;
  };

  const Instruction& instruction(size_t i) const { return program_.instructions[i]; }

  void find_streams(size_t step) {
    streams_.assign(ranks_, std::vector<std::vector<Interval>>(kStreams));
    for (size_t rank = 0; rank < ranks_; ++rank) {
      for (size_t i = 0; i < program_.instructions.size(); ++i) {
        streams_[rank][static_cast<size_t>(instruction(i).stream)].push_back(
            interval_of(steps_.at(step, rank, i)));
      }
    }
  }

  // Returns the part of an interval in which the rank computed.
  double part_beside_computation(size_t rank, const Interval& interval) const {
    return busy_part(interval, streams_[rank][static_cast<size_t>(StreamKind::compute)]);
  }

  bool is_beside_messages(size_t rank, const Interval& interval) const {
    return std::ranges::any_of(kAllStreams, [&](StreamKind stream) {
      return communicates(stream) &&
             busy_part(interval, streams_[rank][static_cast<size_t>(stream)]) > 0.0;
    });
  }

  void look_at_operation(size_t step, size_t i) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const Interval ran = interval_of(steps_.at(step, rank, i));
      if (is_beside_messages(rank, ran)) {
        continue;
      }
      Work work = work_of(program_, instruction(i), static_cast<int64_t>(rank));
      OperationSamples& samples = operations_[{instruction(i).opcode, work.dtype, work.sizes}];
      samples.work = std::move(work);
      samples.seconds.push_back(ran.end_s - ran.start_s);
    }
  }

  // Measures each group of ranks along the axis from its last begin to its last end.
  void look_at_message(size_t step, size_t i) {
    if (!instruction(i).inner_axes.empty() || instruction(i).sent_as) {
      return;  // several collectives, each with times of its own, or sums beside them
    }
    const auto axis = static_cast<size_t>(instruction(i).axis);
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const std::vector<int64_t> group = group_of(program_.mesh, static_cast<int64_t>(rank), axis);
      if (group.front() != static_cast<int64_t>(rank)) {
        continue;
      }
      Interval ran = interval_of(steps_.at(step, rank, i));
      double bytes = 0.0;
      for (const int64_t member : group) {
        const TimelineRow& row = steps_.at(step, static_cast<size_t>(member), i);
        ran.start_s = std::max(ran.start_s, row.start_s);
        ran.end_s = std::max(ran.end_s, row.end_s);
        bytes = std::max(bytes, paced_bytes(program_, instruction(i), member));
      }
      double least = 1.0;
      double most = 0.0;
      for (const int64_t member : group) {
        const double part = part_beside_computation(static_cast<size_t>(member), ran);
        least = std::min(least, part);
        most = std::max(most, part);
      }
      const MessageTime copy = packing(i, group);
      const double seconds = ran.end_s - ran.start_s;
      const std::vector<CollectiveAlgorithm>& algorithms = instruction(i).algorithms;
      const auto algorithm = algorithms.empty() ? CollectiveAlgorithm::automatic : algorithms[0];
      MessageSamples& samples = messages_[{instruction(i).opcode, axis, algorithm, bytes}];
      if (most <= kIdle) {
        samples.alone_s.push_back(seconds - copy.alone_s);
      } else if (least >= kBusy) {
        samples.beside_s.push_back(seconds - copy.beside_s);
      }
    }
  }

  // Returns the profile's time of the buffer copies that the message's time includes.
  MessageTime packing(size_t i, const std::vector<int64_t>& group) const {
    double packed = 0.0;
    for (const int64_t member : group) {
      double bytes = 0.0;
      for (const ValueId id : instruction(i).outputs) {
        if (!program_.value(id).holds.empty()) {
          bytes += static_cast<double>(program_.local_bytes(id, member));
        }
      }
      packed = std::max(packed, bytes);
    }
    return packed > 0.0
               ? before_.collective(Opcode::slice, static_cast<size_t>(instruction(i).axis), packed)
               : MessageTime{};
  }

  int take_operations() {
    int taken = 0;
    for (const auto& [key, samples] : operations_) {
      const double seconds = median(samples.seconds);
      if (seconds < kShortest) {
        continue;
      }
      auto known = std::ranges::find(profile_.operations, key, [](const OperationTime& time) {
        return std::tuple(time.opcode, time.work.dtype, time.work.sizes);
      });
      if (known == profile_.operations.end()) {
        const size_t classes =
            profile_.operations.empty() ? 0 : profile_.operations.front().by_class.size();
        known = profile_.operations.insert(known, {.opcode = std::get<Opcode>(key),
                                                   .work = samples.work,
                                                   .by_class = std::vector<double>(classes)});
      }
      for (double& of_class : known->by_class) {
        of_class *= known->seconds > 0.0 ? seconds / known->seconds : 1.0;
      }
      known->seconds = seconds;
      ++taken;
    }
    return taken;
  }

  int take_messages() {
    int taken = 0;
    for (const auto& [key, samples] : messages_) {
      const auto& [opcode, axis, algorithm, bytes] = key;
      const double alone_s = median(samples.alone_s);
      const double beside_s = median(samples.beside_s);
      if (bytes <= 0.0 || (alone_s < kShortest && beside_s < kShortest)) {
        continue;
      }
      MessageTime time = before_.collective(opcode, axis, bytes, algorithm);
      const bool known = time.alone_s > 0.0 && time.beside_s > 0.0;
      const double longer = known ? time.beside_s / time.alone_s : 1.0;  // beside computation
      time.bytes = bytes;
      time.alone_s = alone_s >= kShortest ? alone_s : beside_s / longer;
      time.beside_s = beside_s >= kShortest ? beside_s : alone_s * longer;
      put({.opcode = opcode, .axis = axis, .algorithm = algorithm}, time);
      ++taken;
    }
    return taken;
  }

  void put(CollectiveTimes which, const MessageTime& time) {
    auto found = std::ranges::find_if(profile_.collectives, [&](const CollectiveTimes& times) {
      return times.opcode == which.opcode && times.axis == which.axis &&
             times.algorithm == which.algorithm;
    });
    if (found == profile_.collectives.end()) {
      which.bandwidth = time.bytes / time.alone_s;
      found = profile_.collectives.insert(found, std::move(which));
    }
    std::vector<MessageTime>& table = found->table;
    std::erase_if(table, [&](const MessageTime& other) {
      return other.bytes <= kSameBytes * time.bytes && time.bytes <= kSameBytes * other.bytes;
    });
    table.insert(std::ranges::upper_bound(table, time.bytes, {}, &MessageTime::bytes), time);
  }

  const Program& program_;
  MeasuredSteps steps_;
  Profile& profile_;
  CostModel before_;
  size_t ranks_;
  std::vector<std::vector<std::vector<Interval>>> streams_;  // [rank, stream], of one step
  std::map<std::tuple<Opcode, DType, Sizes>, OperationSamples> operations_;
  // The key is opcode, axis, algorithm and bytes.
  std::map<std::tuple<Opcode, size_t, CollectiveAlgorithm, double>, MessageSamples> messages_;
};

}  // namespace

Absorbed absorb(const TimingRecord& record, const Program& program, Profile& profile) {
  if (print_program(program) != record.header.program.text) {
    fail(ExitCode::file,
         "{}: its run had another program ({} instructions) than these decks and its strategy make "
         "now ({} instructions)",
         record.path, record.header.program.rows.size(), program.instructions.size());
  }
  check(record.header.program.rows.size() == program.instructions.size() &&
            record.header.run.world_size == ranks_of(program.mesh),
        "a timing file of another size than its program");
  const bool was_possible = implausible_number(profile).empty();
  const Absorbed found = Absorption(record, program, profile).run();
  const std::string wrong = implausible_number(profile);
  if (was_possible && !wrong.empty()) {
    fail(ExitCode::file, "{}: its times are those of no machine: {}", record.path, wrong);
  }
  if (found.operations + found.messages == 0) {
    fail(ExitCode::file, "{}: has no times of instructions that ran alone", record.path);
  }
  return found;
}

ProfileKey key_of_run(const TimingRecord& record, const Mesh& mesh, const ProfileKey& profile) {
  const RunAttributes& run = record.header.run;
  ProfileKey key = profile;
  key.build = build_name(run.program_version, run.git_commit, run.git_dirty);
  if (!profile.device.starts_with(run.device + ", ")) {  // threads and graphs follow
    key.device = run.device;
  }
  // The file also lists libraries that do not affect speed.
  const bool all_loaded = std::ranges::all_of(profile.libraries, [&](const std::string& library) {
    return std::ranges::find(run.libraries, library) != run.libraries.end();
  });
  if (!all_loaded) {
    key.libraries = run.libraries;
  }
  key.mesh = mesh;
  key.hosts = numbered(run.hostnames);
  return key;
}

}  // namespace hidup
