#include "train/tokenizer.h"

#include <algorithm>
#include <charconv>

#include "core/check.h"
#include "core/text.h"
#include "core/units.h"
#include "deck/data_deck.h"

namespace hidup {
namespace {

constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";  // U+FFFD

int32_t parse_number(std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ExitCode::usage, "\"{}\" is not a token: expected numbers with blanks between them",
         shown(text));
  }
  return number;
}

}  // namespace

Tokenizer::Tokenizer(const DataDeck& data, int64_t vocab, const std::vector<std::string>& words)
    : unit_(data.kind != "text"         ? Unit::number
            : data.tokenizer == "words" ? Unit::word
                                        : Unit::byte),
      vocab_(vocab),
      vocabulary_(words),
      words_(words) {
  if (unit_ == Unit::word && words_.empty()) {
    fail(ExitCode::usage, "data.tokenizer is words, but the vocabulary is not known");
  }
}

int32_t Tokenizer::number_of(std::string_view word) const {
  if (unit_ == Unit::number) {
    return parse_number(word);
  }
  const int32_t known = vocabulary_.find(word);
  const int32_t number = known >= 0 ? known : vocabulary_.find(kUnknownWord);
  if (number < 0) {
    fail(ExitCode::usage, "the word \"{}\" is not among the {} words of the model's vocabulary",
         shown(word), format_count(vocabulary_.size()));
  }
  return number;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  if (unit_ == Unit::byte) {
    std::ranges::transform(text, std::back_inserter(tokens),
                           [](char c) { return static_cast<unsigned char>(c); });
  } else {
    const auto take = [&](std::string_view word) {
      if (unit_ == Unit::word || word != kEndOfLine) {
        tokens.push_back(number_of(word));
      }
    };
    WordSplitter splitter;
    splitter.feed(text, take);
    splitter.end_word(take);
  }
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_) {
      fail(ExitCode::usage, "token {} is not in the model's vocabulary of {}", token,
           format_count(vocab_));
    }
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    const auto index = static_cast<size_t>(token);
    if (unit_ == Unit::byte) {
      token < 256 ? text += static_cast<char>(token) : text += kNoCharacter;
    } else if (unit_ == Unit::word && index < words_.size() && words_[index] == kEndOfLine) {
      text += '\n';
    } else {
      text += text.empty() || text.back() == '\n' ? "" : " ";
      text += unit_ == Unit::number   ? std::to_string(token)
              : index < words_.size() ? words_[index]
                                      : std::string(kNoCharacter);
    }
  }
  return text;
}

}  // namespace hidup
