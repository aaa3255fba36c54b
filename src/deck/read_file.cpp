#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "core/file.h"
#include "deck/deck.h"

namespace hidup {

DeckSource read_deck_file(const std::string& path) {
  const std::filesystem::path here = working_folder();  // comes first: without it nothing is found
  std::string text = read_text_file(path, "deck", 1 << 20);
  // canonical() resolves symbolic links, so that "../" in the deck's paths can be taken away.
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::canonical((here / path).parent_path(), error);
  if (error) {
    fail(ExitCode::file, "cannot read the deck {}: cannot find its folder: {}", path,
         error.message());
  }
  return {path, std::move(text), folder};
}

}  // namespace hidup
