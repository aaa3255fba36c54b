// main() of a test binary whose cases all need a device. Without one, CTest reads "[  SKIPPED ]"
// and counts the case as skipped.
#include <gtest/gtest.h>

#include "device_needed/device_needed.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!GTEST_FLAG_GET(list_tests) && hidup::without_device()) {
    return hidup::kSkipped;
  }
  return RUN_ALL_TESTS();
}
