// A disk that runs full: the error names the file and the reason, flushed data stays readable, and
// the process exits cleanly and silently, although HDF5's own exit handler would retry forever.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "core/check.h"
#include "io/gradient_file.h"
#include "io/timing_file.h"
#include "reader.h"
#include "sample.h"
#include "temporary_folder.h"

// The address sanitizer calls this function: the memory of a failed file is leaked on purpose.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

namespace hidup {
namespace {

// Exit statuses of the children.
constexpr int kFailed = 10;      // with the expected Error(file)
constexpr int kOtherError = 11;  // with another error
constexpr int kDidNotFail = 12;
constexpr int kFailedTwice = 13;  // a second call did not throw as well

// Limits the size of this process's files to `bytes` from now on.
void limit_file_size(uint64_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

void send_errors_to(const std::string& path) {
  dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
}

// Runs `body`, which must fail on the file with the operating system's reason.
int expect_error(const std::string& path, const std::string& reason,
                 const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool complete = message.starts_with(path + ": ") && message.ends_with(": " + reason);
    return error.code() == ExitCode::file && complete ? kFailed : kOtherError;
  }
  return kDidNotFail;
}

// Appends and flushes until that fails, and reports every flushed step.
int write_until_full(const std::string& path, const std::string& reason, TimingFile& file,
                     const Child::Report& report) {
  const int status = expect_error(path, reason, [&] {
    for (int64_t step = 1; step < 200'000; ++step) {
      sample::append(file, step);
      if (step % 100 == 0) {
        file.flush();
        report(step);
      }
    }
  });
  if (status == kFailed && expect_error(path, reason, [&] { file.close(); }) != kFailed) {
    return kFailedTwice;
  }
  return status;
}

void check_rows(const std::string& path, int64_t flushed) {
  const Reader reader(path);
  ASSERT_TRUE(reader.is_open());
  const auto steps = reader.values<int64_t>("/iterations/step");
  const auto loss = reader.values<double>("/iterations/loss");
  const auto spans = reader.values<double>("/ranks/exposed_comm_s");
  ASSERT_GE(steps.size(), static_cast<size_t>(flushed));
  ASSERT_GE(loss.size(), static_cast<size_t>(flushed));
  const auto dropped = reader.values<int64_t>("/experts/dropped");
  const int64_t experts = sample::kExperts.layers * sample::kExperts.experts;
  ASSERT_GE(spans.size(), static_cast<size_t>(flushed * sample::kRanks));
  ASSERT_GE(dropped.size(), static_cast<size_t>(flushed * experts));
  for (int64_t step = 1; step <= flushed; ++step) {
    const size_t i = static_cast<size_t>(step) - 1;
    ASSERT_EQ(steps[i], step);
    ASSERT_EQ(loss[i], sample::iteration(step).loss);
    ASSERT_EQ(spans[i * sample::kRanks], sample::spans(step, 2)[0]);
    ASSERT_EQ(dropped[i * static_cast<size_t>(experts)], sample::loads(step, 0)[0]);
  }
}

// Reads in a process of its own: the other processes here must use HDF5 through hidup first,
// because the first user sets up its exit handler.
void expect_readable(const std::string& path, int64_t flushed) {
  Child reader([&](const Child::Report&) {
    check_rows(path, flushed);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(reader.wait(), 0);
}

// Waits for a child and returns its last report.
int64_t last_report(Child& child) {
  int64_t last = 0;
  for (int64_t value = child.next(); value >= 0; value = child.next()) {
    last = value;
  }
  return last;
}

TEST(DiskFull, ReportsAndKeepsWhatWasFlushed) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  const std::string errors = folder / "errors";
  Child writer([&](const Child::Report& report) {
    send_errors_to(errors);
    TimingFile file(path, false, sample::header());
    limit_file_size(1'000'000);
    return write_until_full(path, "file too large", file, report);
  });
  const int64_t flushed = last_report(writer);
  EXPECT_EQ(writer.wait(), kFailed);
  EXPECT_GT(flushed, 1000);
  EXPECT_EQ(std::filesystem::file_size(errors), 0U);
  expect_readable(path, flushed);
}

// Without a call of flush() the file's own thread meets the error, and append throws it.
TEST(DiskFull, ReachesTheTrainingThread) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  Child writer([&](const Child::Report&) {
    TimingFile file(path, false, sample::header());
    limit_file_size(std::filesystem::file_size(path));
    return expect_error(path, "file too large", [&] {
      for (int64_t step = 1; step < 20'000; ++step) {
        sample::append(file, step);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  });
  EXPECT_EQ(writer.wait(), kFailed);
  expect_readable(path, 0);
}

// With no caller left to throw to, the destructor logs the error.
TEST(DiskFull, IsLoggedByTheDestructor) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  const std::string errors = folder / "errors";
  Child writer([&](const Child::Report&) {
    send_errors_to(errors);
    TimingFile file(path, false, sample::header());
    sample::append(file, 1);
    limit_file_size(std::filesystem::file_size(path));
    return 0;
  });
  EXPECT_EQ(writer.wait(), 0);
  std::string logged;
  std::getline(std::ifstream(errors) >> std::ws, logged);
  EXPECT_TRUE(logged.starts_with("hidup: error: " + path)) << logged;
  EXPECT_TRUE(logged.ends_with("file too large")) << logged;
}

// The header is cut off at any size. For every second size an old file is in its place.
TEST(DiskFull, LeavesNoFileWithoutAHeader) {
  const TemporaryFolder folder;
  int failures = 0;
  for (uint64_t limit = 0; limit <= 16'384; limit += 512) {
    const std::string path = folder / std::to_string(limit);
    const std::string errors = folder / "errors";
    const bool old = limit % 1024 == 0;
    if (old) {
      folder.write(std::to_string(limit), "old");
    }
    Child writer([&](const Child::Report&) {
      send_errors_to(errors);
      limit_file_size(limit);
      return expect_error(path, "file too large",
                          [&] { const TimingFile file(path, old, sample::header()); });
    });
    const int status = writer.wait();
    EXPECT_TRUE(status == kFailed || status == kDidNotFail) << status << " at " << limit;
    EXPECT_EQ(std::filesystem::file_size(errors), 0U) << limit;
    if (status == kFailed) {
      ++failures;
      EXPECT_EQ(std::filesystem::exists(path), old) << limit;
      EXPECT_TRUE(!old || std::filesystem::file_size(path) == 3U) << limit;
    } else {
      EXPECT_GT(std::filesystem::file_size(path), 3U) << limit;
    }
    std::filesystem::remove(path);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"errors"}) << limit;  // nothing else
  }
  EXPECT_GT(failures, 2);
}

TEST(DiskFull, KeepsTheOldGradients) {
  const TemporaryFolder folder;
  const std::string path = folder / "gradients.h5";
  const std::vector<float> data(10'000, 1.0F);
  const std::vector<NamedTensor> tensors = {{"weight", {100, 100}, data.data()}};
  for (const uint64_t limit : {100, 1000, 20'000, 40'000}) {
    std::ofstream(path) << "old";
    Child writer([&](const Child::Report&) {
      limit_file_size(limit);
      return expect_error(path, "file too large",
                          [&] { write_gradients(path, true, 2.0, tensors); });
    });
    EXPECT_EQ(writer.wait(), kFailed) << limit;
    EXPECT_EQ(std::filesystem::file_size(path), 3U);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"gradients.h5"});
  }
}

// Mounts a small file system that this process alone sees.
bool mount_small_disk(const std::string& folder) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
}

TEST(DiskFull, OnARealFileSystem) {
  const TemporaryFolder folder;
  constexpr int kCannotMount = 77;
  Child outer([&](const Child::Report&) {
    const std::string disk = folder / "disk";
    const std::string path = disk + "/run.h5";
    std::filesystem::create_directory(disk);
    if (!mount_small_disk(disk)) {
      return kCannotMount;
    }
    Child writer([&](const Child::Report& report) {
      TimingFile file(path, false, sample::header());
      return write_until_full(path, "no space left on device", file, report);
    });
    const int64_t flushed = last_report(writer);
    EXPECT_EQ(writer.wait(), kFailed);
    EXPECT_GT(flushed, 1000);
    expect_readable(path, flushed);
    return testing::Test::HasFailure() ? 1 : 0;
  });
  const int status = outer.wait();
  if (status == kCannotMount) {
    GTEST_SKIP() << "needs the right to mount a file system";
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hidup
