#include "train/words.h"

#include "core/check.h"
#include "core/text.h"

namespace hidup {

Vocabulary::Vocabulary(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const int64_t before = size();
    if (add(word) != before) {
      fail(ExitCode::file, "the vocabulary has the word \"{}\" twice", shown(word));
    }
  }
}

std::vector<std::string> Vocabulary::words() const {
  std::vector<std::string> words(numbers_.size());
  for (const auto& [word, number] : numbers_) {
    words[static_cast<size_t>(number)] = word;
  }
  return words;
}

int32_t Vocabulary::find(std::string_view word) const {
  const auto found = numbers_.find(word);
  return found == numbers_.end() ? -1 : found->second;
}

int32_t Vocabulary::add(std::string_view word) {
  const int32_t known = find(word);
  if (known >= 0) {
    return known;
  }
  const auto number = static_cast<int32_t>(numbers_.size());
  numbers_.emplace(word, number);
  return number;
}

}  // namespace hidup
