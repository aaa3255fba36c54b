// The part of the data, or the files, for the validation loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/check.h"
#include "temporary_folder.h"
#include "train/dataset.h"

namespace hidup {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class Validation : public testing::Test {
 protected:
  // Opens a data set with `keys` in the section data, for sequences of 3 tokens.
  static Dataset open(const std::string& keys, const Words& vocabulary = {}) {
    const std::string text =
        "model: {layers: 1, hidden: 2, heads: 1, sequence: 3}\n"
        "data: {" +
        keys + "}\ntrain: {batch: 1, steps: 1}\n";
    const DeckSource model{"m.yaml", text, "/"};
    return open_data(parse_decks(&model, nullptr, {}), vocabulary);
  }

  // Returns the error after its place.
  static std::string problem(const std::string& keys, ExitCode code) {
    try {
      open(keys);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      const std::string message = error.what();
      EXPECT_THAT(message, HasSubstr("m.yaml:2:"));
      return message.substr(message.find(": ") + 2);
    }
    return "";
  }

  // Returns the first tokens of the first `samples` samples.
  static std::vector<int32_t> starts(const Batches& batches, int64_t samples) {
    const std::vector<int32_t> tokens = batches.read(0, samples).tokens;
    std::vector<int32_t> first;
    for (size_t i = 0; i < tokens.size(); i += 3) {
      first.push_back(tokens[i]);
    }
    return first;
  }

  TemporaryFolder folder_;
};

TEST_F(Validation, ThereIsNone) {
  const Dataset data = open("path: " + folder_.write("a", "abcdefg"));
  EXPECT_EQ(data.validation, nullptr);
  EXPECT_EQ(data.validation_sequences, 0);
  EXPECT_EQ(data.description.find("validation"), std::string::npos);
}

TEST_F(Validation, TheLastWindowsOfTheData) {
  const std::string path = folder_.write("a", "aaabbbcccdddeeefff.");  // 6 windows of 3
  const Dataset data = open("validation: 0.34, path: " + path);
  ASSERT_NE(data.validation, nullptr);
  EXPECT_EQ(data.validation_sequences, 2);
  EXPECT_THAT(starts(*data.validation, 2), ElementsAre('e', 'f'));
  EXPECT_THAT(starts(*data.batches, 4), testing::UnorderedElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(data.description, EndsWith("; validation: the last 2 of 6 windows of 3 tokens"));
  EXPECT_EQ(data.files.size(), 1U);
}

TEST_F(Validation, BothSidesHaveAWindow) {
  EXPECT_EQ(
      problem("validation: 0.05, path: " + folder_.write("a", "aaabbbcccdddeee."), ExitCode::usage),
      "data.validation 0.05 of 5 window(s) of 3 tokens leaves 5 for training and 0 for "
      "validation: both need one");
  EXPECT_EQ(problem("validation: 0.5, path: " + folder_.write("a", "aaa."), ExitCode::usage),
            "data.validation 0.5 of 1 window(s) of 3 tokens leaves 0 for training and 1 for "
            "validation: both need one");
}

TEST_F(Validation, Files) {
  const std::string path = folder_.write("a", "aaabbb.");
  const std::string other = folder_.write("v", "vvvwwwxxx.");
  const Dataset data = open("validation: " + other + ", path: " + path);
  EXPECT_EQ(data.validation_sequences, 3);
  EXPECT_THAT(starts(*data.validation, 3), ElementsAre('v', 'w', 'x'));
  EXPECT_THAT(starts(*data.batches, 2), testing::UnorderedElementsAre('a', 'b'));
  ASSERT_EQ(data.files.size(), 2U);
  EXPECT_EQ(data.files[1].path, other);
  EXPECT_THAT(data.description, HasSubstr("; validation: 10 tokens in 1 file(s), 4 distinct"));
  EXPECT_EQ(problem("validation: /none, path: " + path, ExitCode::file),
            "data.validation: cannot read /none: No such file or directory");
  EXPECT_THAT(
      problem("validation: " + folder_.write("v", "vv") + ", path: " + path, ExitCode::usage),
      testing::StartsWith("the data has 2 tokens"));
}

TEST_F(Validation, WordsOfItsFilesGoOnInTheVocabulary) {
  const std::string keys = "tokenizer: words, path: " + folder_.write("a", "the cat sat\n") +
                           ", validation: " + folder_.write("v", "a cat ran\nby");
  const Dataset data = open(keys);
  EXPECT_EQ(data.vocab, 7);
  EXPECT_EQ(data.vocabulary, (Words{"the", "cat", "sat", "<eos>", "a", "ran", "by"}));
  EXPECT_THAT(starts(*data.validation, 1), ElementsAre(4));
  const Dataset again = open(keys, {"by", "ran", "a", "<eos>", "sat", "cat", "the", "owl"});
  EXPECT_EQ(again.vocab, 8);
  EXPECT_EQ(again.vocabulary.size(), 8U);
  EXPECT_THAT(starts(*again.validation, 1), ElementsAre(2));
  EXPECT_THAT(starts(*again.batches, 1), ElementsAre(6));
  EXPECT_THROW(open(keys, {"the", "cat", "sat", "<eos>", "a", "ran"}), Error);
}

TEST_F(Validation, ItsTokensCountForTheVocabularyOfTheDeck) {
  const std::string text =
      "model: {layers: 1, hidden: 2, heads: 1, sequence: 3, vocab: 4}\n"
      "data: {tokenizer: words, path: " +
      folder_.write("a", "the cat sat\n") + ", validation: " + folder_.write("v", "a b c") +
      "}\ntrain: {batch: 1, steps: 1}\n";
  const DeckSource model{"m.yaml", text, "/"};
  try {
    open_data(parse_decks(&model, nullptr, {}));
    ADD_FAILURE() << "a vocabulary that is too small was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "m.yaml:1:61: model.vocab is 4, but the data needs 7 or more: it "
                 "has 7 distinct words");
  }
}

}  // namespace
}  // namespace hidup
