#include "core/log.h"

#include <unistd.h>

#include <string>

#include "core/text.h"

namespace hidup::log {
namespace {

int g_rank = 0;
std::string g_speaker;  // "rank 3 (node-17)"; empty where there is only one rank

}  // namespace

void set_rank(int rank, int world_size, std::string_view host) {
  g_rank = rank;
  g_speaker = world_size > 1 ? fmt::format("rank {} ({})", rank, host) : "";
}

bool is_rank_zero() {
  return g_rank == 0;
}

void write_line(std::string_view level, std::string_view message) {
  // One write call per line, so that lines of several ranks do not mix.
  const std::string line = fmt::format("hidup: {}{}\n", level, printable(message));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void error(std::string_view message) {
  write_line("error: ",
             g_speaker.empty() ? std::string(message) : fmt::format("{}: {}", g_speaker, message));
}

}  // namespace hidup::log
