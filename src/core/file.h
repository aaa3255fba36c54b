// Files that exist: what they are, and texts that are read whole.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace hidup {

// What is no regular file, for messages: "a folder", "a pipe", "a device", "a socket". `mode`: as
// stat(2) has it.
std::string_view kind_of_file(mode_t mode);

// Where the process is. Throws Error(file) where that folder was deleted.
std::string working_folder();

inline constexpr int64_t kTextFileBytes = 64 << 20;

// The whole of a regular file of at most `max_bytes`; anything else is refused and never waited
// for. Throws Error(file) "cannot read the WHAT PATH: REASON".
std::string read_text_file(const std::string& path, std::string_view what,
                           int64_t max_bytes = kTextFileBytes);

}  // namespace hidup
