// Text files.
#pragma once

#include <string>
#include <string_view>

namespace hidup {

// The whole of a file. Throws Error(file) "cannot read the WHAT PATH: REASON".
std::string read_text_file(const std::string& path, std::string_view what);

// Replaces the file. Throws Error(file) likewise.
void write_text_file(const std::string& path, std::string_view text, std::string_view what);

}  // namespace hidup
