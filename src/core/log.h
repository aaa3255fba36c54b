// Log lines on standard error. Rank 0 writes them; any rank writes its own errors.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace hidup::log {

// Sets the rank of this process, once it is known. Until then the process logs as rank 0.
void set_rank(int rank, int world_size, std::string_view host);

void write_line(std::string_view level, std::string_view message);
bool is_rank_zero();

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (is_rank_zero()) {
    write_line("", fmt::format(format, std::forward<Args>(args)...));
  }
}

template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (is_rank_zero()) {
    write_line("warning: ", fmt::format(format, std::forward<Args>(args)...));
  }
}

// Writes an error from any rank, with the rank's name.
void error(std::string_view message);

}  // namespace hidup::log
