// Asks the system beforehand for what a library is going to take that ends the process, or hangs,
// where it is refused. What is asked for is given back at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hidup {

// Throws Error(out_of_memory) "WHAT needs ... of address space, and the system refuses it: ...".
void check_address_space(int64_t bytes, std::string_view what);

// Of the file system of the folder, for this user; nothing where it does not say.
std::optional<int64_t> free_bytes(const std::string& folder);

// Threads beside this one, all at a time. Throws Error(out_of_memory) "WHAT needs ... threads, and
// the system gives ...: ...".
void check_threads(int threads, std::string_view what);

}  // namespace hidup
