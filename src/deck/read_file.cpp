#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/check.h"
#include "deck/deck.h"

namespace hidup {

DeckSource read_deck_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  std::string text;
  if (file) {
    std::array<char, 4096> block;
    while (const size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
      text.append(block.data(), count);
    }
  }
  if (!file || std::ferror(file.get()) != 0) {
    fail(ExitCode::file, "cannot read the deck {}: {}", path, std::strerror(errno));
  }
  // Without symbolic links, so that "../" in the paths of the deck can be taken away.
  const std::filesystem::path folder =
      std::filesystem::canonical(std::filesystem::absolute(path).parent_path());
  return {path, text, folder};
}

}  // namespace hidup
