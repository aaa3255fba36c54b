// Checks for memory and threads that a library is going to need, because the library would end the
// process or hang where the system refuses them. Each check gives back at once what it took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hidup {

// Throws Error(out_of_memory) "WHAT needs ... of address space, and the system refuses it: ...".
void check_address_space(int64_t bytes, std::string_view what);

// Returns the free bytes of the folder's file system for this user; nothing where it does not tell.
std::optional<int64_t> free_bytes(const std::string& folder);

// Starts all threads at a time, beside the calling one. Throws Error(out_of_memory) "WHAT needs ...
// threads, and the system gives ...: ...".
void check_threads(int threads, std::string_view what);

}  // namespace hidup
