// Support for tests that need a device of the build's kind. A machine may lack a GPU.
#pragma once

namespace hidup {

// Exit code of a skipped test; CTest knows it as SKIP_RETURN_CODE.
inline constexpr int kSkipped = 77;

// Returns true where the machine has no such device, and prints the reason on standard output as
// GoogleTest prints that it skips.
bool without_device();

}  // namespace hidup
