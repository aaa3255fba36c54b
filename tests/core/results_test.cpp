// Results that do not reach standard output are an error. Each test has its own process with its
// own standard output.
#include "core/results.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "child.h"
#include "core/check.h"
#include "core/file.h"
#include "core/new_file.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

// Checks finish()'s error after 1 and 10'000 lines. `redirect` changes standard output.
void expect_error(const std::string& reason, const std::function<void()>& redirect) {
  for (const int lines : {1, 10'000}) {
    Child child([&](const Child::Report&) {
      redirect();
      results::open_streams();
      for (int line = 1; line <= lines; ++line) {
        results::print("line {}\n", line);
      }
      try {
        results::finish();
      } catch (const Error& error) {
        const std::string expected = "standard output: cannot write the results: " + reason;
        return error.code() == ExitCode::file && error.what() == expected ? 0 : 1;
      }
      return 2;
    });
    EXPECT_EQ(child.wait(), 0) << reason << ", " << lines;
  }
}

TEST(Results, AreMissedOnAFullDisk) {
  expect_error("no space left on device", [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); });
}

TEST(Results, AreMissedByAReaderThatLeft) {
  expect_error("broken pipe", [] {
    int ends[2] = {};
    static_cast<void>(pipe(ends) == 0);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
  });
}

TEST(Results, AreMissedWhereNobodyWantedThem) {
  expect_error("bad file descriptor", [] { close(STDOUT_FILENO); });
}

// Output that was lost once stays an error.
TEST(Results, AreMissedOnADiskThatWasFull) {
  const TemporaryFolder folder;
  const std::string path = folder.write("results", "");
  Child child([&](const Child::Report&) {
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    for (int line = 1; line <= 10'000; ++line) {
      results::print("line {}\n", line);
    }
    dup2(open(path.c_str(), O_WRONLY), STDOUT_FILENO);
    return results::flush() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

// The next opened file would take the number of the closed standard output.
TEST(Results, DoNotGoToAnotherFile) {
  const TemporaryFolder folder;
  Child child([&](const Child::Report&) {
    close(STDOUT_FILENO);
    results::open_streams();
    NewFile file(folder / "out");
    results::print("results\n");
    file.take_name(false);
    return results::flush() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(read_text_file(folder / "out", "test's file"), "");
}

TEST(Results, ArePrintedAtTheEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.write("results", "");
  Child child([&](const Child::Report&) {
    dup2(open(path.c_str(), O_WRONLY), STDOUT_FILENO);
    results::open_streams();
    results::print("{} of {} {}\n", 1, 2, "\x1b[1mbold");
    results::finish();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(read_text_file(path, "test's file"), "1 of 2 \\x1b[1mbold\n");
}

}  // namespace
}  // namespace hidup
