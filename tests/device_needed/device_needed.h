// Tests that need a device of the kind that this build is for, which a build for GPUs may not find.
#pragma once

namespace hidup {

// Exit code of a test that was skipped, as CTest is told (SKIP_RETURN_CODE).
inline constexpr int kSkipped = 77;

// Whether the machine has no such device; says so on standard output, with the reason, as
// GoogleTest says that it skips.
bool without_device();

}  // namespace hidup
