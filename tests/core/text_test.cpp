#include "core/text.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/name_pattern.h"

namespace hidup {
namespace {

const std::vector<std::string> kKeys = {"model.layers", "model.hidden", "train.batch", "lr"};

TEST(FormatNumbers, JoinsNeighbours) {
  EXPECT_EQ(format_numbers({}), "");
  EXPECT_EQ(format_numbers({3}), "3");
  EXPECT_EQ(format_numbers({0, 1}), "0, 1");
  EXPECT_EQ(format_numbers({0, 1, 2, 5, 7, 8, 9, 10}), "0-2, 5, 7-10");
  EXPECT_EQ(format_ranks({3}), "rank 3");
  EXPECT_EQ(format_ranks({0, 1, 2, 5}), "ranks 0-2, 5");
}

TEST(Nearest, FindsTypos) {
  EXPECT_EQ(nearest("model.layer", kKeys), "model.layers");
  EXPECT_EQ(nearest("model.lyaers", kKeys), "model.layers");
  EXPECT_EQ(nearest("Model.Hidden", kKeys), "model.hidden");
  EXPECT_EQ(nearest("rl", kKeys), "lr");
}

TEST(Nearest, SaysNothingWhereNothingIsClose) {
  EXPECT_EQ(nearest("cluster.device", kKeys), "");
  EXPECT_EQ(nearest("", kKeys), "");
}

TEST(Nearest, DoesNotCompareWhatIsNoWord) {
  const std::string book(1000000, 'x');
  EXPECT_EQ(nearest(book, std::vector<std::string>{book}), "");
}

TEST(Shown, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(shown("layers.0 \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "layers.0 \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(shown("a\x1b[31m\x07\x7f"), "a\\x1b[31m\\x07\\x7f");
  EXPECT_EQ(shown(std::string_view("\0\n\r\t", 4)), "\\x00\\n\\r\\t");
  EXPECT_EQ(shown("\xC2\x9B"), "\\xc2\\x9b") << "a control sequence in one character";
}

TEST(Shown, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(shown("\x9B\xFF"), "\\x9b\\xff");
  EXPECT_EQ(shown("\xC3"), "\\xc3");
  EXPECT_EQ(shown("\xE2\x82x"), "\\xe2\\x82x");
  EXPECT_EQ(shown("\xC0\x9B\xE0\x82\x9B"), "\\xc0\\x9b\\xe0\\x82\\x9b") << "longer than need be";
  EXPECT_EQ(shown("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "half a surrogate pair";
  EXPECT_EQ(shown("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond the last";
}

TEST(Shown, CutsByCharacters) {
  EXPECT_EQ(shown("abcd", 4), "abcd");
  EXPECT_EQ(shown("abcde", 4), "abcd...");
  EXPECT_EQ(shown("\xC3\xA4\n\xC3\xA4", 2), "\xC3\xA4\\n...");
  EXPECT_EQ(shown(std::string(1000, 'x')).size(), kLongestQuote + 3);
}

TEST(Printable, KeepsLinesAndLength) {
  const std::string line(1000, 'x');
  EXPECT_EQ(printable(line + "\n\x1b[2J\n"), line + "\n\\x1b[2J\n");
}

TEST(Matches, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches("layers.*.ffn.up", "layers.0.ffn.up"));
  EXPECT_TRUE(matches("layers.*.ffn.up", "layers.10.ffn.up"));
  EXPECT_FALSE(matches("layers.*.ffn.up", "layers.0.ffn.up.biased"));
  EXPECT_TRUE(matches("layers.?.ffn*", "layers.0.ffn.up"));
  EXPECT_FALSE(matches("layers.?.ffn*", "layers.10.ffn.up"));
  EXPECT_TRUE(matches("*up", "upset up"));  // the star matches the first "up"
  EXPECT_FALSE(matches("*up", "up set"));
  EXPECT_TRUE(matches("a**", "a"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("a", "aa"));
}

// The hash names files and random streams, so it must never change.
TEST(Hash, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(hash_of("foobar"), 0x85944171f73967e8ULL);
}

TEST(Utf8Length, OfTheFirstCharacter) {
  EXPECT_EQ(utf8_length("ab"), 1U);
  EXPECT_EQ(utf8_length("\xc3\xa9"), 2U);
  EXPECT_EQ(utf8_length("\xe2\x82\xac."), 3U);
  EXPECT_EQ(utf8_length("\xf0\x9f\x8e\x89"), 4U);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf"), 4U);
  // In order: nothing, a second byte, Latin-1, a cut character, overlong encodings, half of a
  // UTF-16 pair, a number beyond the last character, and a byte that never occurs.
  for (const char* text : {"", "\x80", "\xe9t", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf",
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_EQ(utf8_length(text), 0U) << text;
  }
}

TEST(NamePattern, NumbersBecomeStars) {
  EXPECT_EQ(pattern_of("layers.3.ffn.up"), "layers.*.ffn.up");
  EXPECT_EQ(pattern_of("gradients.12"), "gradients.*");
  EXPECT_EQ(pattern_of("layers.3, input gradient"), "layers.*, input gradient");
  EXPECT_EQ(pattern_of("head2.norm1"), "head2.norm1");
}

TEST(Split, KeepsEmptyParts) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(split("a,bc,,d,", ','), (Parts{"a", "bc", "", "d", ""}));
  EXPECT_EQ(split("", ','), Parts{""});
}

}  // namespace
}  // namespace hidup
