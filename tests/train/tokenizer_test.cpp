// Conversions between text and tokens.
#include "train/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/check.h"
#include "deck/data_deck.h"

namespace hidup {
namespace {

using testing::ElementsAre;
using Tokens = std::vector<int32_t>;

DataDeck data(const std::string& kind, const std::string& tokenizer = "bytes") {
  DataDeck deck;
  deck.kind = kind;
  deck.tokenizer = tokenizer;
  return deck;
}

std::string problem(const Tokenizer& tokenizer, const std::string& text) {
  try {
    tokenizer.encode(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Tokenizer, Bytes) {
  const Tokenizer bytes(data("text"), 300, {});
  EXPECT_THAT(bytes.encode("a\n\xff"), ElementsAre('a', '\n', 255));
  EXPECT_EQ(bytes.decode(Tokens{'a', '\n', 255}), "a\n\xff");
  EXPECT_EQ(bytes.decode(Tokens{'a', 256, 'b'}),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(problem(Tokenizer(data("text"), 100, {}), "az"),
            "token 122 is not in the model's vocabulary of 100");
}

TEST(Tokenizer, Words) {
  const Tokenizer words(data("text", "words"), 4, {"the", "cat", "<eos>"});
  EXPECT_THAT(words.encode(" the  cat\n\n\tcat"), ElementsAre(0, 1, 2, 2, 1));
  EXPECT_THAT(words.encode("the cat\n"), ElementsAre(0, 1, 2));
  EXPECT_EQ(words.decode(Tokens{0, 1, 2, 2, 1}), "the cat\n\ncat");
  EXPECT_EQ(words.decode(Tokens{1, 3, 0}), "cat \xEF\xBF\xBD the");
  EXPECT_EQ(problem(words, "the dog"),
            "the word \"dog\" is not among the 3 words of the model's vocabulary");
  const Tokenizer unknown(data("text", "words"), 3, {"<unk>", "cat", "<eos>"});
  EXPECT_THAT(unknown.encode("the cat"), ElementsAre(0, 1));
  EXPECT_THROW(Tokenizer(data("text", "words"), 3, {}), Error);
}

TEST(Tokenizer, Numbers) {
  for (const char* kind : {"tokens", "synthetic"}) {
    const Tokenizer numbers(data(kind), 1000, {});
    EXPECT_THAT(numbers.encode("7 999\n\t0"), ElementsAre(7, 999, 0));
    EXPECT_EQ(numbers.decode(Tokens{7, 999, 0}), "7 999 0");
    EXPECT_EQ(problem(numbers, "1 -7"), "token -7 is not in the model's vocabulary of 1,000");
    EXPECT_EQ(problem(numbers, "1000"), "token 1000 is not in the model's vocabulary of 1,000");
    EXPECT_EQ(problem(numbers, "7 a8"),
              "\"a8\" is not a token: expected numbers with blanks between them");
    EXPECT_EQ(problem(numbers, "99999999999"),
              "\"99999999999\" is not a token: expected numbers with blanks between them");
  }
}

}  // namespace
}  // namespace hidup
