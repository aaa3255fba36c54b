#include "core/failure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace hidup {
namespace {

Failure failure_in(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    return current_failure();
  }
  return {ExitCode::done, ""};
}

TEST(CurrentFailure, ErrorHasItsOwnCode) {
  const Failure failure = failure_in([] { fail(ExitCode::infeasible, "nothing fits"); });
  EXPECT_EQ(failure.code, ExitCode::infeasible);
  EXPECT_EQ(failure.message, "nothing fits");
}

TEST(CurrentFailure, MemoryAndThreadsThatTheSystemRefuses) {
  EXPECT_EQ(failure_in([] { throw std::bad_alloc(); }).code, ExitCode::out_of_memory);
  const Failure size = failure_in([] { std::vector<int>().reserve(~size_t{0}); });
  EXPECT_EQ(size.code, ExitCode::out_of_memory);
  const Failure thread = failure_in([] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  EXPECT_EQ(thread.code, ExitCode::out_of_memory);
  EXPECT_EQ(thread.message.find("cannot start a thread: "), 0U);
}

TEST(CurrentFailure, Files) {
  const Failure folder =
      failure_in([] { std::filesystem::create_directory("/nowhere/at/all/folder"); });
  EXPECT_EQ(folder.code, ExitCode::file);
  EXPECT_NE(folder.message.find("/nowhere/at/all/folder"), std::string::npos);
  const Failure stream = failure_in([] {
    std::ifstream file;
    file.exceptions(std::ios::failbit);
    file.open("/nowhere/at/all");
  });
  EXPECT_EQ(stream.code, ExitCode::file);
}

TEST(CurrentFailure, AllElseIsInternal) {
  EXPECT_EQ(failure_in([] { throw std::logic_error("odd"); }).code, ExitCode::internal);
  EXPECT_EQ(failure_in([] { throw std::system_error(EDOM, std::generic_category()); }).code,
            ExitCode::internal);
  EXPECT_EQ(failure_in([] { throw 7; }).code, ExitCode::internal);
}

}  // namespace
}  // namespace hidup
