// Errors that carry the exit code of the process, and checks with context.
//
// Anything that ends a run is thrown as an Error. main() prints it with the
// rank, and brings the other ranks down with the same exit code.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace hidup {

// The exit codes that docs/clusters.md documents.
enum class ExitCode : int {
  done = 0,
  usage = 2,          // usage or bad deck
  infeasible = 3,     // no feasible strategy
  out_of_memory = 4,  // host or device memory is used up
  communication = 5,  // a collective failed, timed out or lost a rank
  file = 6,           // bad or missing file, or no space
  stopped = 7,        // by a signal or the wall time, after a checkpoint
  unavailable = 8,    // device or library not available
  not_finite = 9,     // loss or gradients not finite
  internal = 70,      // an error in hidup itself
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// An argument of a message that is made only where the message is printed: checks pass it for texts
// that take time to make. `make` returns the text.
template <typename Make>
struct Lazy {
  Make make;
};
template <typename Make>
Lazy(Make) -> Lazy<Make>;

// Throws an Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error(internal) unless `condition` holds, which only a bug in hidup can break. Errors that
// a user can cause are reported with fail() and their own code.
template <typename... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) {
    fail(ExitCode::internal, format, std::forward<Args>(args)...);
  }
}

}  // namespace hidup

template <typename Make>
struct fmt::formatter<hidup::Lazy<Make>> : formatter<std::string> {
  auto format(const hidup::Lazy<Make>& text, format_context& context) const {
    return formatter<std::string>::format(text.make(), context);
  }
};
