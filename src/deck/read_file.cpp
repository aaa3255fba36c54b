#include <filesystem>

#include "core/file.h"
#include "deck/deck.h"

namespace hidup {

DeckSource read_deck_file(const std::string& path) {
  std::string text = read_text_file(path, "deck");
  // Without symbolic links, so that "../" in the paths of the deck can be taken away.
  const std::filesystem::path folder =
      std::filesystem::canonical(std::filesystem::absolute(path).parent_path());
  return {path, std::move(text), folder};
}

}  // namespace hidup
