// What a command tells: its results, on standard output. Messages about the work go to standard
// error (core/log.h).
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "core/text.h"

namespace hidup::results {

// To be called before anything is opened: a standard stream that the caller closed is not given to
// the next file, and a pipe that the reader closed or a file that may not grow any more is an error
// of the write, not the end of the process.
void open_streams();

// As it is. A failure does not end the work; finish() throws it.
void write(std::string_view text);

// Control characters that came from a file are escaped, as in messages.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write(printable(fmt::format(format, std::forward<Args>(args)...)));
}

// Shows what was written so far. Says whether all of it got through.
bool flush();

// To be called at the end of every command: throws Error(file) where a result got lost.
void finish();

}  // namespace hidup::results
