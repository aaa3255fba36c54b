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

int g_error = 0;  // errno of the first failed write

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
      // open() takes the lowest free number, this one. Writing to it fails, so missing results are
      // seen.
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
