// Functions for existing files: their kind, and texts that are read whole.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hidup {

// Names the kind of a file that is not a regular one, for messages: "a folder", "a pipe", "a
// device" or "a socket". `mode` is st_mode of stat(2).
std::string_view kind_of_file(mode_t mode);

// Returns the working directory. Throws Error(file) where it was deleted.
std::string working_folder();

inline constexpr int64_t kTextFileBytes = 64 << 20;

// Reads all of a regular file of at most `max_bytes`. Other kinds of files are refused, never
// waited for. Throws Error(file) "cannot read the WHAT PATH: REASON".
std::string read_text_file(const std::string& path, std::string_view what,
                           int64_t max_bytes = kTextFileBytes);

}  // namespace hidup
