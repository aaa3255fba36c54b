#include "io/timing_input.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "core/file.h"
#include "core/limits.h"
#include "core/text.h"
#include "io/hdf5_input.h"

namespace hidup {
namespace {

// Longest time of a run's clock in seconds: 30 years.
constexpr double kLongest = 1e9;
// Seconds by which an instruction may end before it begins where a GPU's events give the times.
constexpr double kResolution = 1e-3;

bool is_time(double seconds) {
  return seconds >= 0.0 && seconds <= kLongest;  // rejects NaN, too
}

int64_t bytes_of_file(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    fail(ExitCode::file, "{}: cannot open the file: {}", path,
         lower_case_start(std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ExitCode::file, "{}: is {}, not a file", path, kind_of_file(status.st_mode));
  }
  return status.st_size;
}

class TimingReader {
 public:
  explicit TimingReader(const std::string& path)
      : file_(path, bytes_of_file(path), hdf5::InputFile::State::growing) {
    record_.path = path;
    for (const char* group : {"input", "strategy", "program", "iterations", "ranks", "timeline"}) {
      expect(file_.has(group), "is no timing file of `hidup train`");
    }
  }

  TimingRecord read() {
    read_run();
    read_program();
    if (file_.has("program/predicted_s")) {
      read_prediction();
    }
    read_iterations();
    read_timeline();
    return std::move(record_);
  }

 private:
  template <typename... Args>
  void expect(bool right, fmt::format_string<Args...> what, Args&&... args) const {
    if (!right) {
      fail(ExitCode::file, "{}: {}", file_.path(), fmt::format(what, std::forward<Args>(args)...));
    }
  }

  std::string text(const std::string& name) const {
    return file_.values<std::string>(name, 0).at(0);
  }

  // Reads one value per instruction.
  template <typename T, typename Row>
  void read_column(const std::string& name, std::vector<Row>& rows, T Row::*member,
                   int64_t least = 0) const {
    const std::vector<T> values = file_.values<T>("program/" + name, 1);
    expect(values.size() == rows.size(), "program/{} has {} rows and program/name {}", name,
           values.size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      if constexpr (std::is_same_v<T, int64_t>) {
        expect(values[i] >= least, "program/{} has {}, expected {} or more", name, values[i],
               least);
      }
      rows[i].*member = values[i];
    }
  }

  // Returns the first `count` values; values of incomplete rows are cut off.
  std::vector<double> numbers(const std::string& name, size_t count, int dims = 1) const {
    std::vector<double> values = file_.values<double>(name, dims);
    expect(values.size() >= count, "{} is too short", name);
    values.resize(count);
    return values;
  }

  void expect_time(const std::string& where, double value) const {
    expect(is_time(value), "{} {:.9g}, expected 0 to {:g} s", where, value, kLongest);
  }

  std::vector<double> seconds(const std::string& name, size_t count) const {
    std::vector<double> values = numbers(name, count);
    std::ranges::for_each(values, [&](double value) { expect_time(name + " has", value); });
    return values;
  }

  void read_run() {
    RunAttributes& run = record_.header.run;
    const hdf5::Handle root = file_.open_group("/");
    int64_t version = 0;
    file_.get_attribute(root.get(), "format_version", version);
    expect(version == kTimingFormatVersion, "has format {}, and this program reads {}", version,
           kTimingFormatVersion);
    int64_t dirty = 0;
    file_.get_attribute(root.get(), "git_dirty", dirty);
    run.git_dirty = dirty != 0;
    file_.get_attribute(root.get(), "program_version", run.program_version);
    file_.get_attribute(root.get(), "git_commit", run.git_commit);
    file_.get_attribute(root.get(), "model", run.model);
    file_.get_attribute(root.get(), "device", run.device);
    file_.get_attribute(root.get(), "hostnames", run.hostnames);
    file_.get_attribute(root.get(), "libraries", run.libraries);
    file_.get_attribute(root.get(), "world_size", run.world_size);
    expect(run.world_size >= 1 && run.world_size <= kMaxRanks &&
               static_cast<int64_t>(run.hostnames.size()) == run.world_size,
           "has {} ranks on {} hosts", run.world_size, run.hostnames.size());
    record_.header.inputs.resolved = text("input/resolved");
    record_.header.strategy.text = text("strategy/text");
    const hdf5::Handle strategy = file_.open_group("strategy");
    file_.get_attribute(strategy.get(), "name", record_.header.strategy.name);
    if (file_.has("emulation")) {
      const hdf5::Handle emulation = file_.open_group("emulation");
      double& dilation = record_.header.emulation.emplace().dilation;
      file_.get_attribute(emulation.get(), "dilation", dilation);
      expect(dilation > 0.0 && std::isfinite(dilation),
             "emulation: dilation is {}, expected a number above 0", dilation);
    }
  }

  void read_program() {
    ProgramInfo& program = record_.header.program;
    program.text = text("program/text");
    for (std::string& name : file_.values<std::string>("program/name", 1)) {
      program.rows.push_back({.name = std::move(name)});
    }
    expect(!program.rows.empty(), "has no instructions");
    read_column("kind", program.rows, &ProgramRow::kind);
    read_column("stream", program.rows, &ProgramRow::stream);
    read_column("microbatch", program.rows, &ProgramRow::microbatch, -1);
    read_column("phase", program.rows, &ProgramRow::phase);
    read_column("collective", program.rows, &ProgramRow::collective);
    read_column("flops", program.rows, &ProgramRow::flops);
    read_column("bytes", program.rows, &ProgramRow::bytes);
  }

  void read_prediction() {
    PredictionInfo& prediction = record_.header.prediction.emplace();
    const hdf5::Handle strategy = file_.open_group("strategy");
    const auto get_time = [&](const char* name, double& value) {
      file_.get_attribute(strategy.get(), name, value);
      expect_time(fmt::format("strategy: {} is", name), value);
    };
    get_time("predicted_iteration_s", prediction.iteration_s);
    get_time("predicted_compute_s", prediction.compute_s);
    get_time("predicted_comm_s", prediction.comm_s);
    get_time("predicted_exposed_comm_s", prediction.exposed_comm_s);
    file_.get_attribute(strategy.get(), "predicted_peak_bytes", prediction.peak_bytes);
    expect(prediction.peak_bytes >= 0, "strategy: predicted_peak_bytes is {}, expected 0 or more",
           prediction.peak_bytes);
    const size_t count = record_.header.program.rows.size();
    prediction.start_s = seconds("program/predicted_start_s", count);
    prediction.length_s = seconds("program/predicted_s", count);
  }

  void read_iterations() {
    record_.steps = file_.values<int64_t>("iterations/step", 1);
    const auto ranks = static_cast<size_t>(record_.header.run.world_size);
    // The columns of a file that is being written grow one after the other.
    size_t steps =
        std::min(record_.steps.size(), file_.values<double>("iterations/wall_s", 1).size());
    for (const char* name : {"ranks/compute_s", "ranks/comm_s", "ranks/exposed_comm_s"}) {
      steps = std::min(steps, file_.values<double>(name, 2).size() / ranks);
    }
    record_.steps.resize(steps);
    int64_t before = 0;
    for (const int64_t step : record_.steps) {
      expect(step > before, "iterations/step has {}, expected rising numbers from 1", step);
      before = step;
    }
    record_.wall_s = seconds("iterations/wall_s", steps);
    record_.compute_s = numbers("ranks/compute_s", steps * ranks, 2);
    record_.comm_s = numbers("ranks/comm_s", steps * ranks, 2);
    record_.exposed_comm_s = numbers("ranks/exposed_comm_s", steps * ranks, 2);
    for (size_t i = 0; i < steps * ranks; ++i) {
      check_busy(i, ranks);
    }
  }

  // Checks that no rank has times of a step that was not timed.
  void check_busy(size_t i, size_t ranks) const {
    const size_t first = i / ranks * ranks;
    const bool unknown = std::isnan(record_.compute_s[first]);
    for (const auto& [name, values] :
         {std::pair("compute_s", &record_.compute_s), std::pair("comm_s", &record_.comm_s),
          std::pair("exposed_comm_s", &record_.exposed_comm_s)}) {
      const double value = (*values)[i];
      expect(std::isnan(value) == unknown, "ranks/{}: the times of step {} are known in part", name,
             record_.steps[i / ranks]);
      if (!unknown) {
        expect_time(fmt::format("ranks/{} has", name), value);
      }
    }
  }

  void read_timeline() {
    const auto step = file_.values<int64_t>("timeline/step", 1);
    const auto rank = file_.values<int64_t>("timeline/rank", 1);
    const auto instruction = file_.values<int64_t>("timeline/instruction", 1);
    const size_t count = std::min({step.size(), rank.size(), instruction.size(),
                                   file_.values<double>("timeline/start_s", 1).size(),
                                   file_.values<double>("timeline/end_s", 1).size()});
    const std::vector<double> start_s = seconds("timeline/start_s", count);
    const std::vector<double> end_s = seconds("timeline/end_s", count);
    std::vector<TimelineRow>& rows = record_.timeline;
    for (size_t i = 0; i < count; ++i) {
      expect(end_s[i] >= start_s[i] - kResolution,
             "instruction {} of step {} on rank {} ends {:.3g} s before it begins", instruction[i],
             step[i], rank[i], start_s[i] - end_s[i]);
      rows.push_back(
          {step[i], rank[i], instruction[i], start_s[i], std::max(start_s[i], end_s[i])});
    }
    std::ranges::sort(rows, {}, [](const TimelineRow& row) {
      return std::tuple(row.step, row.rank, row.instruction);
    });
    const auto instructions = static_cast<int64_t>(record_.header.program.rows.size());
    const int64_t events = record_.header.run.world_size * instructions;  // events of a step
    while (!rows.empty() && static_cast<int64_t>(rows.size()) % events != 0) {
      rows.pop_back();  // drops an incomplete step
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto event = static_cast<int64_t>(i) % events;
      expect(rows[i].rank == event / instructions && rows[i].instruction == event % instructions &&
                 rows[i].step == rows[i - static_cast<size_t>(event)].step,
             "the timeline of step {} lacks instructions, or has some that the program lacks",
             rows[i].step);
    }
  }

  hdf5::InputFile file_;
  TimingRecord record_;
};

// Reads the file in another process first: HDF5 1.10 crashes on some damaged texts (in H5HG_read())
// or never ends, and a timing file has no checksum that tells beforehand.
void check_that_it_can_be_read(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {};
    setrlimit(RLIMIT_CORE, &no_core);
    constexpr unsigned kPatience = 60;  // seconds
    alarm(kPatience);
    try {
      TimingReader(path).read();
    } catch (const std::exception&) {  // this process reports it when it reads
    }
    _exit(0);
  }
  int status = 0;
  if (child > 0 && waitpid(child, &status, 0) == child && status != 0) {
    fail(ExitCode::file, "{}: is damaged: HDF5 crashes when it reads the file, or does not end",
         path);
  }
}

}  // namespace

std::vector<int64_t> missing_steps(const std::string& path, int64_t last) {
  const auto library = hdf5::lock_library();
  const hdf5::InputFile file(path, bytes_of_file(path), hdf5::InputFile::State::growing);
  const hdf5::Handle root = file.open_group("/");
  int64_t done = 0;
  if (H5Aexists(root.get(), "continued_at_step") > 0) {
    file.get_attribute(root.get(), "continued_at_step", done);
  }
  const std::vector<int64_t> found = file.values<int64_t>("iterations/step", 1);
  std::vector<int64_t> missing;
  for (int64_t step = done + 1; step <= last; ++step) {
    if (!std::ranges::binary_search(found, step)) {
      missing.push_back(step);
    }
  }
  return missing;
}

TimingRecord read_timing_file(const std::string& path) {
  const auto library = hdf5::lock_library();
  check_that_it_can_be_read(path);
  return TimingReader(path).read();
}

}  // namespace hidup
