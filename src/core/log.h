// Log lines to standard error: from rank 0, unless a rank has its own news.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace hidup::log {

// Called once, when the rank is known. Until then the process logs as rank 0.
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

// Printed by whichever rank calls it, with its name.
void error(std::string_view message);

}  // namespace hidup::log
