#include "io/timing_file.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "io/hdf5.h"
#include "io/timing_layout.h"

namespace hidup {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFlushInterval{500};

}  // namespace

// Takes rows from the training thread and writes them in a thread of its own. The library's lock is
// taken before rows_mutex_, which is held only briefly.
class TimingFile::Writer {
 public:
  Writer(const std::string& path, bool overwrite, const TimingHeader& header);
  ~Writer();

  void append_iteration(const Iteration& iteration, const RankTimes& times,
                        const ExpertLoads& loads, const EmulatedIteration& emulated);
  void append_validation(const ValidationRow& row);
  void append_timeline(std::span<const TimelineRow> rows);
  void append_stragglers(std::span<const StragglerRow> rows);
  void append_adapt(const AdaptRow& row);
  void flush();
  void wait_for_step(int64_t step);
  void close();

 private:
  // Writes the rows so far; failure_ keeps an error.
  enum class Until { in_file, on_disk };
  void write_pending(Until until = Until::in_file);
  void flush_periodically(const std::stop_token& stop);
  // Throws failure_. Called under rows_mutex_.
  void check_writable();

  const int64_t world_size_;
  const ExpertLayers experts_;
  const bool validation_;
  const bool emulation_;
  const bool pipeline_;
  const int64_t causes_;
  const bool adapts_;
  std::optional<TimingLayout> layout_;  // empty once closed
  std::mutex rows_mutex_;               // guards the members below
  std::condition_variable_any appended_;
  TimingRows rows_;
  Clock::time_point flushed_ = Clock::now();
  std::exception_ptr failure_;  // the first failed write
  bool failure_reported_ = false;
  int64_t last_step_ = -1;
  int64_t last_validation_step_ = -1;
  int64_t last_timeline_step_ = -1;
  int64_t last_straggler_step_ = -1;
  std::jthread flusher_;  // last member, because it uses all others
};

TimingFile::Writer::Writer(const std::string& path, bool overwrite, const TimingHeader& header)
    : world_size_(header.run.world_size),
      experts_(header.experts),
      validation_(header.validation),
      emulation_(header.emulation.has_value()),
      pipeline_(header.pipeline),
      causes_(std::ssize(header.causes)),
      adapts_(!header.shares.empty()) {
  const auto ranks = static_cast<size_t>(world_size_);
  check(header.memory.peak_bytes.size() == ranks && header.memory.parameter_bytes.size() == ranks,
        "{}: the memory of {} and {} ranks was given, expected {}", path,
        header.memory.peak_bytes.size(), header.memory.parameter_bytes.size(), world_size_);
  check((experts_.layers > 0) == (experts_.experts > 0), "{}: {} layers of {} experts", path,
        experts_.layers, experts_.experts);
  {
    const auto library = hdf5::lock_library();
    layout_.emplace(path, overwrite, header);
  }
  flusher_ = std::jthread([this](const std::stop_token& stop) { flush_periodically(stop); });
}

TimingFile::Writer::~Writer() {
  try {
    if (!failure_reported_) {
      close();
    }
  } catch (const std::exception& error) {
    log::error(error.what());
  }
  flusher_ = {};
  const auto library = hdf5::lock_library();
  layout_.reset();
}

void TimingFile::Writer::check_writable() {
  if (failure_) {
    failure_reported_ = true;
    std::rethrow_exception(failure_);
  }
  check(layout_.has_value(), "the timing file was used after it was closed");
}

void TimingFile::Writer::append_iteration(const Iteration& iteration, const RankTimes& times,
                                          const ExpertLoads& loads,
                                          const EmulatedIteration& emulated) {
  const auto ranks = static_cast<size_t>(world_size_);
  check(times.compute_s.size() == ranks && times.comm_s.size() == ranks &&
            times.exposed_comm_s.size() == ranks && (!pipeline_ || times.idle_s.size() == ranks),
        "times of {}, {}, {} and {} ranks were given, expected {}", times.compute_s.size(),
        times.comm_s.size(), times.exposed_comm_s.size(), times.idle_s.size(), world_size_);
  const auto experts = static_cast<size_t>(experts_.layers * experts_.experts);
  check(loads.tokens.size() == experts && loads.dropped.size() == experts,
        "the tokens of {} and {} experts were given, expected {} x {}", loads.tokens.size(),
        loads.dropped.size(), experts_.layers, experts_.experts);
  check(emulated.late.size() == (emulation_ ? ranks : 0),
        "the late instructions of {} ranks were given, of {} and {}", emulated.late.size(), ranks,
        emulation_ ? "an emulation" : "none");
  const std::scoped_lock lock(rows_mutex_);
  check_writable();
  check(iteration.step > last_step_, "step {} was appended after step {}", iteration.step,
        last_step_);
  last_step_ = iteration.step;
  rows_.iterations.push_back(iteration);
  const auto add = [](std::vector<double>& rows, std::span<const double> values) {
    rows.insert(rows.end(), values.begin(), values.end());
  };
  add(rows_.compute_s, times.compute_s);
  add(rows_.comm_s, times.comm_s);
  add(rows_.exposed_comm_s, times.exposed_comm_s);
  if (pipeline_) {
    add(rows_.idle_s, times.idle_s);
  }
  rows_.expert_tokens.insert(rows_.expert_tokens.end(), loads.tokens.begin(), loads.tokens.end());
  rows_.expert_dropped.insert(rows_.expert_dropped.end(), loads.dropped.begin(),
                              loads.dropped.end());
  if (emulation_) {
    rows_.emulation_wall_s.push_back(emulated.wall_s);
    rows_.emulation_moved_s.push_back(emulated.moved_s);
    rows_.late_instructions.insert(rows_.late_instructions.end(), emulated.late.begin(),
                                   emulated.late.end());
  }
  appended_.notify_all();
}

void TimingFile::Writer::append_validation(const ValidationRow& row) {
  check(validation_, "a validation loss was appended to a timing file without /validation");
  const std::scoped_lock lock(rows_mutex_);
  check_writable();
  check(row.step > last_validation_step_,
        "the validation loss of step {} was appended after that of step {}", row.step,
        last_validation_step_);
  last_validation_step_ = row.step;
  rows_.validation.push_back(row);
  appended_.notify_all();
}

void TimingFile::Writer::append_timeline(std::span<const TimelineRow> rows) {
  if (rows.empty()) {
    return;
  }
  std::vector<TimelineRow> sorted(rows.begin(), rows.end());
  std::ranges::stable_sort(sorted, {}, &TimelineRow::step);
  const std::scoped_lock lock(rows_mutex_);
  check_writable();
  check(sorted.front().step >= last_timeline_step_,
        "the timeline of step {} was appended after that of step {}", sorted.front().step,
        last_timeline_step_);
  last_timeline_step_ = sorted.back().step;
  rows_.timeline.insert(rows_.timeline.end(), sorted.begin(), sorted.end());
  appended_.notify_all();
}

void TimingFile::Writer::append_stragglers(std::span<const StragglerRow> rows) {
  const std::scoped_lock lock(rows_mutex_);
  check_writable();
  for (const StragglerRow& row : rows) {
    check(row.cause >= 0 && row.cause < causes_, "a slow rank has cause {} of {}", row.cause,
          causes_);
    check(row.step >= last_straggler_step_, "slow ranks of step {} were appended after step {}",
          row.step, last_straggler_step_);
    last_straggler_step_ = row.step;
    rows_.stragglers.push_back(row);
  }
  appended_.notify_all();
}

void TimingFile::Writer::append_adapt(const AdaptRow& row) {
  const std::scoped_lock lock(rows_mutex_);
  check_writable();
  check(adapts_ && std::ssize(row.shares) == world_size_, "a change with shares of {} ranks",
        row.shares.size());
  rows_.adapt.push_back(row);
  appended_.notify_all();
}

void TimingFile::Writer::flush() {
  write_pending();
  const std::scoped_lock lock(rows_mutex_);
  check_writable();
}

void TimingFile::Writer::wait_for_step(int64_t step) {
  {
    std::unique_lock lock(rows_mutex_);
    appended_.wait(lock, [&] { return last_step_ >= step || failure_; });
  }
  write_pending(Until::on_disk);
}

void TimingFile::Writer::write_pending(Until until) {
  const auto library = hdf5::lock_library();
  TimingRows rows;
  {
    const std::scoped_lock lock(rows_mutex_);
    if (failure_) {
      return;
    }
    std::swap(rows, rows_);
  }
  std::exception_ptr failure;
  try {
    if (!rows.empty()) {
      layout_->write(rows);
    }
    if (until == Until::on_disk && layout_) {
      layout_->sync();
    }
  } catch (...) {
    failure = std::current_exception();
    layout_->abandon();
  }
  const std::scoped_lock lock(rows_mutex_);
  failure_ = failure;
  flushed_ = Clock::now();
  appended_.notify_all();
}

void TimingFile::Writer::close() {
  flusher_ = {};  // stops and joins
  if (!layout_) {
    return;
  }
  flush();
  const auto library = hdf5::lock_library();
  try {
    layout_->close();
  } catch (...) {
    failure_ = std::current_exception();
    check_writable();
  }
  layout_.reset();
}

void TimingFile::Writer::flush_periodically(const std::stop_token& stop) {
  const auto never = [] { return false; };
  std::unique_lock lock(rows_mutex_);
  while (!failure_ && appended_.wait(lock, stop, [this] { return !rows_.empty(); })) {
    appended_.wait_until(lock, stop, flushed_ + kFlushInterval, never);
    if (stop.stop_requested()) {
      return;  // close() writes the rest
    }
    lock.unlock();
    write_pending();
    lock.lock();
  }
}

TimingFile::TimingFile(const std::string& path, bool overwrite, const TimingHeader& header)
    : writer_(std::make_unique<Writer>(path, overwrite, header)) {}

TimingFile::~TimingFile() = default;

void TimingFile::append_iteration(const Iteration& iteration, const RankTimes& times,
                                  const ExpertLoads& loads, const EmulatedIteration& emulated) {
  writer_->append_iteration(iteration, times, loads, emulated);
}

void TimingFile::append_validation(const ValidationRow& row) {
  writer_->append_validation(row);
}

void TimingFile::append_timeline(std::span<const TimelineRow> rows) {
  writer_->append_timeline(rows);
}

void TimingFile::append_stragglers(std::span<const StragglerRow> rows) {
  writer_->append_stragglers(rows);
}

void TimingFile::append_adapt(const AdaptRow& row) {
  writer_->append_adapt(row);
}

void TimingFile::flush() {
  writer_->flush();
}

void TimingFile::wait_for_step(int64_t step) {
  writer_->wait_for_step(step);
}

void TimingFile::close() {
  writer_->close();
}

}  // namespace hidup
