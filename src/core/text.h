// Small helpers for words and text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hidup {

// Returns the candidate that is spelt most like `word`, or "" if none is close. At most a third of
// the longer word, and at least 1 letter, may differ (Damerau-Levenshtein distance).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// Returns true if the pattern matches the whole text: * stands for any bytes, ? for any one byte.
bool matches(std::string_view pattern, std::string_view text);

// Returns the parts of the text between the separators, one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);

// Returns ascending numbers as text: "0-3, 5".
std::string format_numbers(const std::vector<int>& numbers);

// Returns ascending numbers of ranks as text: "rank 5", "ranks 0-3, 5".
std::string format_ranks(const std::vector<int>& ranks);

// Lowers the first letter: the system's texts begin with a capital, messages here do not.
std::string lower_case_start(std::string text);

// Returns the bytes of the UTF-8 character at the start of the text, or 0 where there is none.
size_t utf8_length(std::string_view text);

inline constexpr size_t kLongestQuote = 200;

// Returns text from outside for a message, so that it neither controls a terminal nor fills it:
// control characters and bytes that are not UTF-8 become \n or \x1b, and `most` characters remain.
std::string shown(std::string_view text, size_t most = kLongestQuote);

// Escapes a message of several lines in the same way, but keeps line breaks and cuts nothing.
std::string printable(std::string_view message);

// Returns the 64-bit FNV-1a hash, which names graphs, strategies and random streams.
constexpr uint64_t hash_of(std::string_view text, uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace hidup
