// Results of a command on standard output. Messages about the work go to standard error
// (core/log.h).
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "core/text.h"

namespace hidup::results {

// Opens the standard streams that the caller closed, so that no file takes their numbers; call it
// before files are opened. A closed pipe or a file at its size limit then fails a write, but does
// not end the process.
void open_streams();

// Writes the text unchanged. A failure does not end the work; finish() throws it.
void write(std::string_view text);

// Writes formatted text and escapes control characters, as in messages.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write(printable(fmt::format(format, std::forward<Args>(args)...)));
}

// Flushes the output. Returns true if all of it was written.
bool flush();

// Ends the results of a command. Throws Error(file) where a write failed.
void finish();

}  // namespace hidup::results
