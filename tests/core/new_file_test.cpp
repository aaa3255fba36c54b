// Files that are complete before they take their names.
#include "core/new_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "child.h"
#include "core/check.h"
#include "core/file.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// Returns the message of the Error(file) that the work throws.
template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "";
}

std::string text_of(const std::string& path) {
  return read_text_file(path, "test's file");
}

TEST(NewFile, IsSeenWhenComplete) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  {
    NewFile file(path);
    file.write("new");
    EXPECT_EQ(text_of(path), "old");
    EXPECT_EQ(text_of(file.location()), "new");
    file.take_name(true);
    EXPECT_EQ(file.location(), path);
  }
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(folder.names(), Names{"out"});
}

TEST(NewFile, LeavesNothingWhereItIsGivenUp) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  NewFile(path).write("new");
  EXPECT_EQ(folder.names(), Names{"out"});
  EXPECT_EQ(text_of(path), "old");
}

TEST(NewFile, ReplacesAFileOnlyIfToldTo) {
  const TemporaryFolder folder;
  const std::string path = folder / "out";
  write_text_file(path, "first", false);
  EXPECT_EQ(error_of([&] { write_text_file(path, "second", false); }),
            path + ": cannot create the file: file exists");
  EXPECT_EQ(text_of(path), "first");
  write_text_file(path, "second", true);
  EXPECT_EQ(text_of(path), "second");
  EXPECT_EQ(folder.names(), Names{"out"});
}

TEST(NewFile, HasItsOwnNameBeforeItTakesOne) {
  const TemporaryFolder folder;
  const std::string path = folder / std::string(255, 'x');  // the longest possible name
  NewFile one(path);
  NewFile other(path);
  EXPECT_NE(one.location(), other.location());
  other.write("other");
  one.write("one");
  one.take_name(false);
  EXPECT_NE(error_of([&] { other.take_name(false); }), "");
  other.take_name(true);
  EXPECT_EQ(text_of(path), "other");
}

TEST(NewFile, GoesWhereALinkLeads) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "below");
  folder.write("below/target", "old");
  fs::create_symlink("below/target", folder / "link");
  fs::create_symlink("link", folder / "to link");
  fs::create_symlink(folder / "below/later", folder / "dangling");
  fs::create_symlink("circle", folder / "circle");
  write_text_file(folder / "to link", "new", true);
  write_text_file(folder / "dangling", "later", false);
  EXPECT_EQ(text_of(folder / "below/target"), "new");
  EXPECT_EQ(text_of(folder / "below/later"), "later");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(error_of([&] { write_text_file(folder / "circle", "", true); }),
            folder / "circle" + ": cannot follow the link: Too many levels of symbolic links");
}

TEST(NewFile, HasThePermissionsThatTheUmaskLeaves) {
  const TemporaryFolder folder;
  const mode_t before = umask(0027);
  write_text_file(folder / "out", "text", false);
  umask(before);
  struct stat status = {};
  ASSERT_EQ(stat((folder / "out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U);
}

TEST(NewFile, DoesNotReplaceAnythingOnAFullDisk) {
  const TemporaryFolder folder;
  const std::string path = folder.write("out", "old");
  Child child([&](const Child::Report&) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string error =
        error_of([&] { write_text_file(path, std::string(2000, 'x'), true); });
    return error == path + ": cannot write: file too large" ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(folder.names(), Names{"out"});
}

// Returns the error about a file to which something happens while it is written.
template <typename Event>
std::string said_after(const TemporaryFolder& folder, const Event& event) {
  fs::create_directories(folder / "below");
  NewFile file(folder / "below/out");
  file.write("first,");
  file.take_name(true);
  file.check_name();
  event();
  file.write(" second");
  return error_of([&] { file.check_name(); });
}

TEST(NewFile, KeepsItsContentWhereItsNameIsTakenAway) {
  const TemporaryFolder folder;
  const std::string path = folder / "below/out";
  const std::string what = " during the run; what the run wrote is ";
  EXPECT_EQ(said_after(folder, [&] { fs::remove(path); }),
            path + ": was deleted or moved" + what + "in " + path + ".kept");
  EXPECT_EQ(text_of(path + ".kept"), "first, second");

  EXPECT_EQ(said_after(folder, [&] { write_text_file(path, "of somebody else", true); }),
            path + ": was replaced by another file" + what + "in " + path + ".kept-2");
  EXPECT_EQ(text_of(path + ".kept-2"), "first, second");
  EXPECT_EQ(text_of(path), "of somebody else");

  const std::string elsewhere = folder / "elsewhere";
  EXPECT_EQ(said_after(folder, [&] { fs::rename(path, elsewhere); }),
            path + ": was deleted or moved" + what + "in " + elsewhere);
  EXPECT_EQ(text_of(elsewhere), "first, second");

  EXPECT_EQ(said_after(folder, [&] { fs::remove_all(folder / "below"); }),
            path + ": was deleted or moved" + what + "lost (" + path +
                ".kept: cannot create the file: no such file or directory)");
}

}  // namespace
}  // namespace hidup
