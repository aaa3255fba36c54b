// Data that does not fit the deck: errors have the place of the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/check.h"
#include "temporary_folder.h"
#include "train/dataset.h"

namespace hidup {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string problem_of(const std::string& path, const std::vector<std::string>& overrides,
                       ExitCode code) {
  const std::string text =
      "model: {layers: 1, hidden: 2, heads: 1,\n"
      "        sequence: 8, vocab: 256}\n"
      "data:\n"
      "  path: " +
      path + "\ntrain: {batch: 1, steps: 1}\n";
  const DeckSource model{"m.yaml", text, "/"};
  const DeckSource cluster{"c.yaml", "cluster: {}", "/"};
  try {
    open_data(parse_decks(&model, &cluster, overrides));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "";
}

TEST(OpenData, NamesThePlaceOfTheKey) {
  const TemporaryFolder folder;
  const std::string corpus = folder.write("corpus", "eight...");
  EXPECT_EQ(problem_of(corpus, {"model.sequence=7"}, ExitCode::usage), "");
  EXPECT_THAT(problem_of(corpus, {}, ExitCode::usage),
              StartsWith("m.yaml:2:19: the data has 8 tokens"));
  EXPECT_THAT(problem_of(corpus, {"model.sequence=9"}, ExitCode::usage),
              StartsWith("--set model.sequence=9: the data has 8 tokens"));
  EXPECT_THAT(problem_of(corpus, {"model.sequence=7", "model.vocab=3"}, ExitCode::usage),
              StartsWith("--set model.vocab=3: model.vocab is 3, but"));
  EXPECT_THAT(problem_of(folder / "none", {}, ExitCode::file),
              testing::AllOf(StartsWith("m.yaml:4:9: data.path: "), HasSubstr("none")));
}

TEST(VocabOf, IsKnownWhereNoFileHasToSayIt) {
  const auto vocab = [](const std::vector<std::string>& overrides) {
    const DeckSource model{"m.yaml",
                           "model: {family: gpt, layers: 1, hidden: 2, heads: 1, sequence: 8}\n"
                           "data: {path: none}\ntrain: {batch: 1, steps: 1}\n",
                           "/"};
    return vocab_of(parse_decks(&model, nullptr, overrides));
  };
  EXPECT_EQ(vocab({}), 256) << "bytes";
  EXPECT_EQ(vocab({"model.vocab=300"}), 300);
  EXPECT_EQ(vocab({"data.kind=tokens", "model.vocab=300"}), 300);
  EXPECT_EQ(vocab({"data.tokenizer=words", "model.vocab=300"}), 300);
  EXPECT_EQ(vocab({"data.kind=tokens"}), std::nullopt);
  EXPECT_EQ(vocab({"data.tokenizer=words"}), std::nullopt);
}

}  // namespace
}  // namespace hidup
