// Words of a text, and their numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hidup {

inline constexpr std::string_view kEndOfLine = "<eos>";
inline constexpr std::string_view kUnknownWord = "<unk>";

// Distinct words, numbered from 0 in order of their first appearance.
class Vocabulary {
 public:
  Vocabulary() = default;
  // Throws Error(file) if a word occurs twice.
  explicit Vocabulary(const std::vector<std::string>& words);

  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }
  // Returns the words in order of their numbers.
  std::vector<std::string> words() const;

  // Returns the word's number, or -1.
  int32_t find(std::string_view word) const;
  // Returns the word's number; a new word gets the next number.
  int32_t add(std::string_view word);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> numbers_;
};

// Splits a text, which may come in blocks, into the words between ASCII white space, with "<eos>"
// at the end of every line, blank lines too.
class WordSplitter {
 public:
  // Calls take(word) for every word and line that ends in this block.
  template <typename Take>
  void feed(std::string_view block, const Take& take) {
    for (const char c : block) {
      if (!is_space(c)) {
        word_ += c;
      } else {
        end_word(take);
      }
      if (c == '\n') {
        take(kEndOfLine);
      }
      last_ = c;
    }
  }

  // Calls take(word) for the word at the end of the text.
  template <typename Take>
  void end_word(const Take& take) {
    if (!word_.empty()) {
      take(word_);
      word_.clear();
    }
  }

  // Does the same at the end of a file, whose last line may lack a line feed.
  template <typename Take>
  void end_file(const Take& take) {
    end_word(take);
    if (last_ != '\n') {
      take(kEndOfLine);
    }
    last_ = '\n';
  }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  std::string word_;  // the word so far
  char last_ = '\n';
};

}  // namespace hidup
