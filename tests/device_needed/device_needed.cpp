#include "device_needed/device_needed.h"

#include <fmt/core.h>

#include "core/check.h"
#include "device/device.h"

namespace hidup {

bool without_device() {
  try {
    make_device({});
  } catch (const Error& error) {
    if (error.code() != ExitCode::unavailable) {
      throw;
    }
    fmt::print("[  SKIPPED ] {}\n", error.what());
    return true;
  }
  return false;
}

}  // namespace hidup
