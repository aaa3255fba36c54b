#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace hidup {
namespace {

// Returns the optimal string alignment distance: each insertion, deletion, substitution and swap of
// neighbours counts 1; upper case equals lower case.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  if (word.size() > kLongestQuote) {
    return best;
  }
  size_t best_distance = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    const size_t allowed = std::max<size_t>(1, std::max(word.size(), candidate.size()) / 3);
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;  // the last star, which matches text up to `taken`
  size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

std::string format_numbers(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
      ++end;
    }
    text += i == 0 ? "" : ", ";
    text += fmt::format("{}", numbers[i]);
    if (end - i > 1) {
      text += fmt::format("{}{}", end - i > 2 ? "-" : ", ", numbers[end - 1]);
    }
    i = end;
  }
  return text;
}

std::string format_ranks(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + format_numbers(ranks);
}

std::string lower_case_start(std::string text) {
  if (!text.empty()) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

size_t utf8_length(std::string_view text) {
  const auto byte = [text](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (text.empty()) {
    return 0;
  }
  const unsigned lead = byte(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length > text.size()) {
    return 0;
  }
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  // These are overlong encodings, halves of UTF-16 pairs, and codes beyond the last character.
  const unsigned second = length > 2 ? byte(1) : 0;
  const bool wrong = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
                     (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90);
  return wrong ? 0 : length;
}

namespace {

// Removes and returns the first character, escaped unless a terminal would just show it.
std::string take_character(std::string_view& text) {
  const size_t length = utf8_length(text);
  const std::string_view character = text.substr(0, std::max<size_t>(length, 1));
  text.remove_prefix(character.size());
  const auto first = static_cast<unsigned char>(character[0]);
  const bool control = first < 0x20 || first == 0x7F ||
                       (first == 0xC2 && static_cast<unsigned char>(character.back()) < 0xA0);
  if (length > 0 && !control) {
    return std::string(character);
  }
  if (character == "\n" || character == "\t" || character == "\r") {
    return character == "\n" ? "\\n" : character == "\t" ? "\\t" : "\\r";
  }
  std::string escaped;
  for (const char c : character) {
    escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return escaped;
}

}  // namespace

std::string shown(std::string_view text, size_t most) {
  std::string result;
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == most) {
      return result + "...";
    }
    result += take_character(text);
  }
  return result;
}

std::string printable(std::string_view message) {
  const auto plain = [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7F); };
  if (std::ranges::all_of(message, plain)) {  // nearly always
    return std::string(message);
  }
  std::string result;
  while (!message.empty()) {
    if (message.front() == '\n') {
      result += '\n';
      message.remove_prefix(1);
    } else {
      result += take_character(message);
    }
  }
  return result;
}

}  // namespace hidup
