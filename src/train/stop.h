// What ends a run before its last step: a signal, the wall time, or a file.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hidup {

enum class StopReason { none, signal, file, time };

// From now on SIGUSR1, SIGTERM and SIGINT ask the run to stop. A second SIGTERM or SIGINT ends the
// process at once, as it does by default.
void catch_stop_signals();

// The signal that came last, 0 before the first.
int caught_signal();

// On rank 0: the reasons that are not signals.
class StopWatch {
 public:
  struct Options {
    std::string folder;             // where a file checkpoint_now asks the run to stop
    double began = 0.0;             // of the process, on monotonic_seconds()'s clock
    std::optional<double> limit_s;  // of wall time, since then
  };
  explicit StopWatch(Options options) : options_(std::move(options)) {}

  // At the end of a step. Time is up where another step and a checkpoint might not end before the
  // limit. `step_s`: of a long step; `checkpoint_s`: tells how long writing one takes.
  StopReason look(double step_s, const std::function<double()>& checkpoint_s);

 private:
  bool takes_file() const;

  Options options_;
  double looked_ = 0.0;  // for the file
};

// "hh:mm:ss" in seconds; nothing where it is something else, or no time at all.
std::optional<double> parse_wall_time(const std::string& text);

}  // namespace hidup
