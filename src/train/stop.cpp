#include "train/stop.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "device/device.h"

namespace hidup {
namespace {

std::atomic<int> g_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may use it

void remember(int signal) {
  g_signal = signal;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = remember;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags |= static_cast<int>(SA_RESETHAND);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

int caught_signal() {
  return g_signal;
}

StopReason StopWatch::look(double step_s, const std::function<double()>& checkpoint_s) {
  constexpr double kBetween = 0.2;  // seconds: the folder may be on a slow file system
  constexpr double kMargin = 1.2;   // a fifth more than measured
  const double now = monotonic_seconds();
  if (options_.limit_s &&
      now - options_.began + kMargin * (step_s + checkpoint_s()) > *options_.limit_s) {
    return StopReason::time;
  }
  if (now - looked_ > kBetween) {
    looked_ = now;
    return takes_file() ? StopReason::file : StopReason::none;
  }
  return StopReason::none;
}

// Removes the file, so that it does not stop the next run, too.
bool StopWatch::takes_file() const {
  std::error_code error;
  return std::filesystem::remove(std::filesystem::path(options_.folder) / "checkpoint_now", error);
}

std::optional<double> parse_wall_time(const std::string& text) {
  double seconds = 0.0;
  std::string_view rest = text;
  for (int part = 0; part < 3; ++part) {
    const size_t end = part < 2 ? rest.find(':') : rest.size();
    if (end == std::string_view::npos || end == 0 || end > 6) {
      return std::nullopt;
    }
    int value = 0;
    for (const char digit : rest.substr(0, end)) {
      if (digit < '0' || digit > '9') {
        return std::nullopt;
      }
      value = 10 * value + (digit - '0');
    }
    if (part > 0 && value > 59) {
      return std::nullopt;
    }
    seconds = 60.0 * seconds + value;
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return seconds > 0.0 ? std::optional(seconds) : std::nullopt;
}

}  // namespace hidup
