// The lock of a folder: its holder, and when it is stale.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint/folder_lock.h"
#include "core/check.h"
#include "core/file.h"
#include "core/new_file.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

constexpr const char* kElsewhere =
    "host: node7\nprocess: 12\nstart: 34\nspace: of another host\nrun: /data/theirs.h5\n";

// Returns the message of the Error(file) that locking throws; empty where locking succeeds.
std::string refusal(const std::string& folder) {
  try {
    const FolderLock lock(folder, "mine.h5");
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
}

TEST(FolderLock, IsOneProcesss) {
  const TemporaryFolder folder;
  const std::string place = folder / "new";
  {
    const FolderLock lock(place, "/data/mine.h5");
    EXPECT_NE(refusal(place).find(fmt::format("process {} on ", getpid())), std::string::npos);
    EXPECT_NE(refusal(place).find("/data/mine.h5"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(place));
}

TEST(FolderLock, OfADeadProcessIsStale) {
  const TemporaryFolder folder;
  std::string text;
  {
    const FolderLock lock(folder / "", "other.h5");
    text = read_text_file(folder / "lock", "lock");
  }
  // A process that started later may have the same number.
  text.insert(text.find("start: ") + 7, "9");
  folder.write("lock", text);
  EXPECT_EQ(refusal(folder / ""), "");
}

TEST(FolderLock, OfAnotherHostIsStaleWithoutRenewals) {
  const TemporaryFolder folder;
  folder.write("lock", kElsewhere);
  std::atomic<bool> renews = true;
  std::thread owner([&] {
    while (renews) {
      utimensat(AT_FDCWD, (folder / "lock").c_str(), nullptr, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  });
  const std::string refused = refusal(folder / "");
  renews = false;
  owner.join();
  EXPECT_NE(refused.find("process 12 on node7"), std::string::npos) << refused;
  EXPECT_NE(refused.find("/data/theirs.h5"), std::string::npos) << refused;
  EXPECT_EQ(refusal(folder / ""), "");
}

TEST(FolderLock, ThatIsGoneIsMadeAgain) {
  const TemporaryFolder folder;
  const std::string place = folder / "new";
  FolderLock lock(place, "mine.h5");
  std::filesystem::remove_all(place);
  lock.renew();
  EXPECT_NE(refusal(place), "");
  write_text_file(place + "/lock", kElsewhere, true);
  EXPECT_THROW(lock.renew(), Error);
}

}  // namespace
}  // namespace hidup
