#include "runtime/emulator.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>
#include <numeric>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;
// Real time. Steps catch up after shorter pauses.
constexpr Nanoseconds kShortestPause = 5'000'000;
constexpr Nanoseconds kLook = 100'000'000;  // between checks of options_.failed

constexpr size_t kAllRanks = 0;  // row of the board

Nanoseconds clock_now() {
  timespec time{};
  if (clock_gettime(CLOCK_MONOTONIC, &time) != 0) {
    fail(ExitCode::internal, "the clock cannot be read: {}", std::strerror(errno));
  }
  return time.tv_sec * kSecond + time.tv_nsec;
}

void sleep_until(Nanoseconds end) {
  const timespec time = {.tv_sec = end / kSecond, .tv_nsec = end % kSecond};
  const int status = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  if (status != 0 && status != EINTR) {
    fail(ExitCode::internal, "a stream cannot sleep: {}", std::strerror(status));
  }
}

// Returns half of the busier stream's time per step: real work may be that far ahead.
Nanoseconds ahead_in(const Program& program, const EmulatedTimes& times) {
  std::array<Nanoseconds, kStreams> sums{};
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    sums[static_cast<size_t>(program.instructions[i].stream)] +=
        times.end_of(static_cast<int>(i), 0);
  }
  return std::ranges::max(sums) / 2;
}

}  // namespace

Emulator::Emulator(const Program& program, Communicator& world, EmulatedTimes times,
                   EmulatorOptions options)
    : program_(program),
      rank_(world.rank()),
      rank_steps_(program, rank_),
      times_(std::move(times)),
      options_(std::move(options)),
      unwinding_(std::uncaught_exceptions()),
      ahead_(ahead_in(program, times_)),
      rows_(program.instructions.size(), -1),
      starts_(program.instructions.size()),
      ends_(program.instructions.size()) {
  find_rows(world);
  step_.next = options_.begin;
}

Emulator::~Emulator() {
  if (std::uncaught_exceptions() > unwinding_) {
    board_->abandon();
  }
}

// Makes a row for all ranks, and one per group and stream in program order.
void Emulator::find_rows(Communicator& world) {
  std::vector<BoardRow> rows(1, BoardRow(static_cast<size_t>(world.size())));
  std::iota(rows[kAllRanks].begin(), rows[kAllRanks].end(), int64_t{0});
  std::map<std::pair<BoardRow, StreamKind>, int> numbers;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    for (int64_t rank = 0; !collective_of(instruction.opcode).empty() && rank < world.size();
         ++rank) {
      if (skips(program_, instruction, rank)) {
        continue;
      }
      BoardRow group = collective_group(program_, instruction, rank);
      if (group.size() < 2) {
        continue;
      }
      const auto [found, is_new] =
          numbers.try_emplace({group, instruction.stream}, static_cast<int>(rows.size()));
      if (is_new) {
        rows.push_back(std::move(group));
      }
      if (rank == rank_) {
        rows_[i] = found->second;
      }
    }
  }
  board_ = std::make_unique<Board>(world, rows, world.share_memory(Board::bytes_of(rows.size())));
}

Emulator::StreamState& Emulator::stream_of(int instruction) {
  const StreamKind kind = program_.instructions[static_cast<size_t>(instruction)].stream;
  return streams_[static_cast<size_t>(kind)];
}

Nanoseconds Emulator::due(Nanoseconds emulated) const {
  return epoch_ + std::llround(options_.dilation * static_cast<double>(emulated));
}

Nanoseconds Emulator::largest(Nanoseconds mine) {
  return board_->largest(kAllRanks, mine, options_.failed, "the end of an emulated step");
}

// Returns how late the host begins the next step. Delays of the last step's own instructions do not
// count, except those of the first step, which creates things at first use.
Nanoseconds Emulator::pause() const {
  const Nanoseconds next = due(step_.next - ahead_);
  return clock_now() - (steps_ == 1 ? next : std::max(next, ended_));
}

void Emulator::begin_step() {
  Nanoseconds moved = 0;
  if (steps_ == 0) {
    const auto start = nanoseconds(options_.clock_start);
    ended_ = largest(clock_now() - start) + start;
    epoch_ = ended_;
    epoch_ = due(ahead_ - options_.begin);
  } else {
    const Nanoseconds longest = largest(pause());
    moved = longest > kShortestPause ? longest : 0;
  }
  epoch_ += moved;
  began_ = moved > 0 ? clock_now() : ended_;
  step_ = {.start = step_.next, .moved = moved};
  for (StreamState& stream : streams_) {
    stream.end = step_.start;
    stream.began = false;
    stream.late = 0;
  }
}

void Emulator::end_step() {
  Nanoseconds last = step_.start;
  for (const StreamState& stream : streams_) {
    last = std::max(last, stream.end);
    step_.late += stream.late;
  }
  step_.next = largest(last) + times_.overhead;
  ended_ = clock_now();
  step_.wall = ended_ - began_;
  ++steps_;
}

void Emulator::begin(int instruction, int behind) {
  const auto i = static_cast<size_t>(instruction);
  StreamState& stream = stream_of(instruction);
  if (!rank_steps_.runs(i)) {
    starts_[i] = behind < 0 ? stream.end : std::max(stream.end, ends_[static_cast<size_t>(behind)]);
    return;
  }
  Nanoseconds start = stream.end + (stream.began ? times_.launch : 0);
  stream.began = true;
  const auto wait_for = [&](int other) {
    start = std::max(start, ends_[static_cast<size_t>(other)] + times_.signal);
  };
  rank_steps_.for_waits(program_.instructions[i], wait_for);
  if (behind >= 0 && &stream_of(behind) != &stream) {
    wait_for(behind);
  }
  if (rows_[i] >= 0) {
    start = board_->largest(static_cast<size_t>(rows_[i]), start, options_.failed,
                            "the emulated start of " + program_.instructions[i].name);
  }
  starts_[i] = start;
}

void Emulator::finish(int instruction) {
  const auto i = static_cast<size_t>(instruction);
  StreamState& stream = stream_of(instruction);
  stream.end = rank_steps_.runs(i) ? times_.end_of(instruction, starts_[i]) : starts_[i];
  ends_[i] = stream.end;
  stream.late += clock_now() > due(stream.end) ? 1 : 0;
}

void Emulator::pace(int instruction) {
  const Nanoseconds end = due(stream_of(instruction).end - ahead_);
  for (Nanoseconds at = clock_now(); at < end && !options_.failed(); at = clock_now()) {
    sleep_until(std::min(end, at + kLook));
  }
}

std::vector<Interval> Emulator::intervals() const {
  std::vector<Interval> all;
  for (size_t i = 0; i < starts_.size(); ++i) {
    all.push_back({to_seconds(starts_[i]), to_seconds(ends_[i])});
  }
  return all;
}

}  // namespace hidup
