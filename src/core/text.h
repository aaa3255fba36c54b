// Small helpers for words and text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hidup {

// The candidate that is spelt most like `word` (Damerau-Levenshtein distance, at
// most a third of the longer word, and at least 1, may differ), or "" if none is close.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// Whether the whole text is like the pattern, in which * stands for any text, also none, and ? for
// any character.
bool matches(std::string_view pattern, std::string_view text);

// Bytes of the UTF-8 character with which the text begins; 0: it begins with none.
size_t utf8_length(std::string_view text);

// FNV-1a, 64 bits: the hash that names graphs, strategies and random streams.
constexpr uint64_t hash_of(std::string_view text, uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace hidup
