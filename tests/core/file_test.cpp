// Reading files as text, and refusing those that are none.
#include "core/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "core/check.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

// Returns the reason in the Error(file) that read_text_file() throws for a deck of over 8 bytes.
std::string refusal(const std::string& path) {
  try {
    read_text_file(path, "deck", 8);
  } catch (const Error& error) {
    const std::string start = "cannot read the deck " + path + ": ";
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ExitCode::file);
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(start.size());
  }
  return "";
}

TEST(TextFile, IsReadWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.write("deck", "a: 1\n\0 2");
  std::filesystem::create_symlink("deck", folder / "link");
  EXPECT_EQ(read_text_file(path, "deck"), "a: 1\n");
  EXPECT_EQ(read_text_file(folder / "link", "deck"), "a: 1\n");
  EXPECT_EQ(read_text_file(folder.write("empty", ""), "deck"), "");
  EXPECT_NE(read_text_file("/proc/self/status", "deck"), "");  // its stated size is 0
  const std::string large(200'000, 'x');
  EXPECT_EQ(read_text_file(folder.write("large", large), "deck"), large);
}

// Reading a pipe without a writer would wait forever.
TEST(TextFile, IsARegularFile) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(refusal(pipe), "it is a pipe, not a regular file");
  const int end = open(pipe.c_str(), O_RDWR | O_NONBLOCK);
  ASSERT_EQ(write(end, "a: 1\n", 5), 5);
  EXPECT_EQ(refusal(pipe), "it is a pipe, not a regular file");
  close(end);
  EXPECT_EQ(refusal("/dev/zero"), "it is a device, not a regular file");
  EXPECT_EQ(refusal(folder / ""), "Is a directory");
  EXPECT_EQ(refusal(folder / "missing"), "No such file or directory");

  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = folder / "socket";
  std::strncpy(address.sun_path, name.c_str(), sizeof(address.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(refusal(name), "No such device or address");
  close(socket);
}

TEST(TextFile, HasALimitedSize) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.write("8", "12345678")), "");
  EXPECT_EQ(refusal(folder.write("9", "123456789")), "it is larger than 8 B");
  const std::string huge = folder.write("huge", "");
  std::filesystem::resize_file(huge, uint64_t{1} << 40);
  EXPECT_EQ(refusal(huge), "it is larger than 8 B");
  EXPECT_EQ(refusal("/proc/self/status"), "it is larger than 8 B");
}

}  // namespace
}  // namespace hidup
