#include "core/results.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/check.h"
#include "core/text.h"

namespace hidup::results {
namespace {

int g_error = 0;  // of the first write that failed

void note(bool done) {
  if (!done && g_error == 0) {
    g_error = errno;
  }
}

}  // namespace

void open_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) {
      // The lowest free number, which is this one. Not to be written to, so that results are
      // missed.
      static_cast<void>(open("/dev/null", O_RDONLY));
    }
  }
}

void write(std::string_view text) {
  note(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

bool flush() {
  note(std::fflush(stdout) == 0);
  return g_error == 0;
}

void finish() {
  if (!flush()) {
    fail(ExitCode::file, "standard output: cannot write the results: {}",
         lower_case_start(std::strerror(g_error)));
  }
}

}  // namespace hidup::results
