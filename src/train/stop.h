// Reasons to end a run before its last step: a signal, the wall time, or a file; or to interrupt it
// for a change.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hidup {

enum class StopReason { none, signal, file, time, change };

// Makes SIGUSR1, SIGTERM and SIGINT ask the run to stop. A second SIGTERM or SIGINT ends the
// process at once, as it does by default.
void catch_stop_signals();

// Returns the last signal, or 0 before the first.
int caught_signal();

// Finds the reasons that are not signals. For rank 0.
class StopWatch {
 public:
  struct Options {
    std::string folder;             // a file checkpoint_now here asks the run to stop
    double began = 0.0;             // start of the process, on monotonic_seconds()'s clock
    std::optional<double> limit_s;  // wall time since `began`
  };
  explicit StopWatch(Options options) : options_(std::move(options)) {}

  // Checks for a reason at the end of a step. Time is up if another step and a checkpoint might end
  // after the limit. `step_s`: seconds of a long step; `checkpoint_s`: the same for a checkpoint.
  StopReason look(double step_s, const std::function<double()>& checkpoint_s);

 private:
  bool takes_file() const;

  Options options_;
  double looked_ = 0.0;  // time of the last look for the file
};

// Parses "hh:mm:ss" to seconds; returns nothing for other text, and for no time at all.
std::optional<double> parse_wall_time(const std::string& text);

}  // namespace hidup
