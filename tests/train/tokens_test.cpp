#include "train/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/check.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> all_tokens(const Corpus& corpus) {
  std::vector<int32_t> tokens(static_cast<size_t>(corpus.summary().tokens));
  corpus.copy(0, corpus.summary().tokens, tokens.data());
  return tokens;
}

// Returns a file in llm.c's format with the given header, right or wrong.
std::string token_file(const std::vector<uint16_t>& tokens, int32_t count, int32_t magic = 20240520,
                       int32_t version = 1) {
  std::string content(1024 + 2 * tokens.size(), '\0');
  const int32_t header[] = {magic, version, count};
  std::memcpy(content.data(), header, sizeof(header));
  if (!tokens.empty()) {
    std::memcpy(content.data() + 1024, tokens.data(), 2 * tokens.size());
  }
  return content;
}

// Returns the message of the Error that opening the corpus throws, and checks its code.
std::string failure(const CorpusOptions& options) {
  try {
    const Corpus corpus(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "no error";
}

TEST(Corpus, BytesOfFilesAreConcatenated) {
  const TemporaryFolder folder;
  const Corpus corpus({"text",
                       {folder.write("b", "ab\xff"), folder.write("empty", ""),
                        folder.write("a", std::string_view("\0z", 2))},
                       "bytes"});
  EXPECT_THAT(all_tokens(corpus), ElementsAre('a', 'b', 255, 0, 'z'));
  EXPECT_EQ(corpus.summary().files.size(), 3U);
  EXPECT_EQ(corpus.summary().tokens, 5);
  EXPECT_EQ(corpus.summary().distinct, 5);
  EXPECT_EQ(corpus.summary().vocab, 256);
}

TEST(Corpus, CopiesRangesThatSpanFiles) {
  const TemporaryFolder folder;
  const Corpus corpus(
      {"text", {folder.write("1", "abc"), folder.write("2", "d"), folder.write("3", "efg")}});
  const std::string all = "abcdefg";
  for (size_t first = 0; first <= all.size(); ++first) {
    for (size_t count = 0; first + count <= all.size(); ++count) {
      std::vector<int32_t> tokens(count);
      corpus.copy(static_cast<int64_t>(first), static_cast<int64_t>(count), tokens.data());
      EXPECT_EQ(std::string(tokens.begin(), tokens.end()), all.substr(first, count));
    }
  }
  EXPECT_THROW(corpus.copy(5, 3, nullptr), Error);
}

TEST(Corpus, WordsAreNumberedAsTheyAppear) {
  const TemporaryFolder folder;
  // the=0 cat=1 <eos>=2 sat=3 dog=4; the last line of a file may lack its line feed.
  const Corpus corpus({"text",
                       {folder.write("1", " the  cat\n\n\tthe sat \r\n"), folder.write("2", "dog")},
                       "words"});
  EXPECT_THAT(all_tokens(corpus), ElementsAre(0, 1, 2, 2, 0, 3, 2, 4, 2));
  EXPECT_EQ(corpus.summary().vocab, 5);
  EXPECT_EQ(corpus.summary().distinct, 5);
}

TEST(Corpus, WordsGoOnWhereAVocabularyEnds) {
  const TemporaryFolder folder;
  const Corpus train({"text", {folder.write("1", "the cat\n")}, "words"});
  const Corpus rest({.kind = "text",
                     .paths = {folder.write("2", "a cat sat\n")},
                     .tokenizer = "words",
                     .vocabulary = train.vocabulary()});
  EXPECT_THAT(all_tokens(rest), ElementsAre(3, 1, 4, 2));
  EXPECT_THAT(rest.vocabulary().words(), ElementsAre("the", "cat", "<eos>", "a", "sat"));
  EXPECT_EQ(rest.summary().vocab, 5);
  EXPECT_EQ(rest.summary().distinct, 4);
}

TEST(Corpus, RefusesWordsThatACompleteVocabularyLacks) {
  const TemporaryFolder folder;
  CorpusOptions options{.kind = "text",
                        .paths = {folder.write("1", "cat the the\n")},
                        .tokenizer = "words",
                        .key = "data.validation",
                        .vocabulary = Vocabulary({"the", "cat", "<eos>", "sat"}),
                        .is_complete = true};
  const Corpus known(options);
  EXPECT_THAT(all_tokens(known), ElementsAre(1, 0, 0, 2));
  EXPECT_EQ(known.summary().vocab, 4);
  options.paths = {folder.write("1", "the dog sat\nby the dog"), folder.write("2", "owl")};
  try {
    const Corpus corpus(options);
    ADD_FAILURE() << "unknown words were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "data.validation: 3 word(s) are not among the 4 words of the model's vocabulary, "
                 "the first of them \"dog\"");
  }
}

TEST(Vocabulary, HasEveryWordOnce) {
  EXPECT_THAT(Vocabulary({"b", "a"}).words(), ElementsAre("b", "a"));
  EXPECT_EQ(Vocabulary({"b", "a"}).find("a"), 1);
  EXPECT_EQ(Vocabulary({"b", "a"}).find("c"), -1);
  EXPECT_THROW(Vocabulary({"b", "a", "b"}), Error);
}

TEST(Corpus, TokenFilesAreConcatenated) {
  const TemporaryFolder folder;
  const Corpus corpus(
      {"tokens",
       {folder.write("1", token_file({5, 65535, 5}, 3)), folder.write("2", token_file({}, 0)),
        folder.write("3", token_file({7}, 1))}});
  EXPECT_THAT(all_tokens(corpus), ElementsAre(5, 65535, 5, 7));
  EXPECT_EQ(corpus.summary().files.size(), 3U);
  EXPECT_EQ(corpus.summary().distinct, 3);
  EXPECT_EQ(corpus.summary().vocab, 65536);
}

TEST(Corpus, UnigramEntropyInNats) {
  const TemporaryFolder folder;
  // Shares 1/2, 1/4, 1/4: H = 1/2 ln 2 + 2 * 1/4 ln 4 = 3/2 ln 2.
  const Corpus bytes({"text", {folder.write("bytes", "aabaabcc")}});
  EXPECT_NEAR(bytes.summary().unigram_entropy, 1.5 * std::log(2.0), 1e-15);
  const Corpus tokens({"tokens", {folder.write("tokens", token_file({9, 9, 0, 300}, 4))}});
  EXPECT_NEAR(tokens.summary().unigram_entropy, 1.5 * std::log(2.0), 1e-15);
  const Corpus same({"text", {folder.write("same", "aaaa")}});
  EXPECT_EQ(same.summary().unigram_entropy, 0.0);
}

TEST(Corpus, HashSeesEveryByteAndTheBoundariesOfFiles) {
  const TemporaryFolder folder;
  const auto hash = [&folder](const std::string& content) {
    return Corpus({"text", {folder.write("file", content)}}).summary().content_hash;
  };
  const std::string content = "The quick brown fox!";
  EXPECT_EQ(hash(content), hash(content));
  for (size_t at = 0; at < content.size(); ++at) {
    std::string other = content;
    other[at] = static_cast<char>(other[at] ^ 0x80);
    EXPECT_NE(hash(other), hash(content)) << "byte " << at;
  }
  EXPECT_NE(hash(std::string(8, '\0')), hash(std::string(16, '\0')));
  const Corpus split(
      {"text", {folder.write("1", content.substr(0, 8)), folder.write("2", content.substr(8))}});
  EXPECT_NE(split.summary().content_hash, hash(content));
}

TEST(Corpus, VocabularyOfTheModelMustHoldItsTokens) {
  const TemporaryFolder folder;
  const std::string text = folder.write("text", "a b a");
  const auto message = [](const CorpusOptions& options, int64_t vocab) -> std::string {
    try {
      Corpus(options).check_vocab(vocab);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({"text", {text}}, 256), "");
  EXPECT_EQ(message({"text", {text}}, 100),
            "model.vocab is 100, but the data needs 256 or more: its tokens are bytes");
  EXPECT_EQ(message({"text", {text}, "words"}, 3), "");
  EXPECT_EQ(message({"text", {text}, "words"}, 2),
            "model.vocab is 2, but the data needs 3 or more: it has 3 distinct words");
  const std::string tokens = folder.write("tokens", token_file({50256, 3}, 2));
  EXPECT_EQ(message({"tokens", {tokens}}, 50257), "");
  EXPECT_EQ(message({"tokens", {tokens}}, 50256),
            "model.vocab is 50256, but the data needs 50257 or more: its largest token is 50256");
}

TEST(Corpus, RefusesMalformedTokenFiles) {
  const TemporaryFolder folder;
  const auto refused = [&folder](const std::string& content) {
    const std::string path = folder.write("bad.bin", content);
    std::string message = failure({"tokens", {path}});
    EXPECT_THAT(message, HasSubstr(path));
    return message;
  };
  EXPECT_THAT(refused(std::string(1023, 'x')), AllOf(HasSubstr("1023"), HasSubstr("1024")));
  EXPECT_THAT(refused(""), AllOf(HasSubstr("0 bytes"), HasSubstr("1024")));
  EXPECT_THAT(refused(token_file({1}, 1, 20240801)),
              AllOf(HasSubstr("20240801"), HasSubstr("expected 20240520")));
  EXPECT_THAT(refused(token_file({1}, 1, 20240520, 2)),
              AllOf(HasSubstr("version 2"), HasSubstr("expected version 1")));
  EXPECT_THAT(refused(token_file({1, 2}, 3)),
              AllOf(HasSubstr("1024 + 2 * 3 = 1030 bytes"), HasSubstr("has 1028 bytes")));
  EXPECT_THAT(refused(token_file({1, 2}, 1)),
              AllOf(HasSubstr("= 1026 bytes"), HasSubstr("has 1028 bytes")));
  EXPECT_THAT(refused(token_file({}, -1)), HasSubstr("hold -1 tokens"));
}

TEST(Corpus, RefusesWhatCannotBeRead) {
  const TemporaryFolder folder;
  const std::string missing = folder / "missing.txt";
  EXPECT_EQ(failure({"text", {missing}}),
            "data.path: cannot read " + missing + ": No such file or directory");
  const std::string directory = folder / "";
  EXPECT_EQ(failure({.kind = "text", .paths = {missing}, .key = "data.validation"}),
            "data.validation: cannot read " + missing + ": No such file or directory");
  EXPECT_EQ(failure({"text", {directory}}),
            "data.path: cannot read " + directory + ": Is a directory");
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(failure({"text", {pipe}}), "data.path: " + pipe + " is not a regular file");
  const std::string empty = folder.write("empty.txt", "");
  for (const char* tokenizer : {"bytes", "words"}) {
    EXPECT_EQ(failure({"text", {empty}, tokenizer}), "data.path: " + empty + " has no tokens");
  }
}

TEST(Corpus, FilesStayWhatTheyWereUnlessTheyAreCutShort) {
  const TemporaryFolder folder;
  const std::string content(100'000, 'a');
  const std::string path = folder.write("text", content);
  const Corpus corpus({"text", {folder.write("before", "b"), path}});
  std::vector<int32_t> tokens(10);
  const auto read_end = [&] { corpus.copy(100'001 - 10, 10, tokens.data()); };

  std::ofstream(path, std::ios::app) << "more";
  read_end();
  EXPECT_THAT(tokens, Each('a'));

  std::filesystem::resize_file(path, 99'995);
  corpus.copy(0, 10, tokens.data());
  EXPECT_THAT(tokens, ElementsAre('b', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', 'a'));
  try {
    read_end();
    ADD_FAILURE() << "a file that was cut short was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("cut short"), HasSubstr("100000")));
  }

  folder.write("text", content);  // rewrites the right content in place
  std::filesystem::rename(folder.write("other", "c"), path);
  read_end();
  EXPECT_THAT(tokens, Each('a'));
  std::filesystem::remove(path);
  read_end();
}

// Files are scanned in blocks of 1 MiB.
TEST(Corpus, WordsAndNumbersAcrossBlocks) {
  const TemporaryFolder folder;
  const size_t block = size_t{1} << 20;
  const std::string text =
      std::string(block - 2, ' ') + "word\n" + std::string(block, 'x') + " word";
  const Corpus words({"text", {folder.write("text", text)}, "words"});
  EXPECT_THAT(all_tokens(words), ElementsAre(0, 1, 2, 0, 1));
  std::vector<uint16_t> numbers(block + 3, 7);
  numbers.back() = 8;
  const Corpus tokens({"tokens", {folder.write("tokens", token_file(numbers, block + 3))}});
  EXPECT_EQ(tokens.summary().tokens, block + 3);
  EXPECT_EQ(all_tokens(tokens).back(), 8);
  EXPECT_EQ(tokens.summary().distinct, 2);
}

TEST(ExpandPaths, PatternsAreSortedByByteAndKeepTheirOrder) {
  const TemporaryFolder folder;
  for (const char* name : {"b.txt", "a10.txt", "a9.txt", "B.txt", "_.txt", "c.bin"}) {
    folder.write(name, "x");
  }
  EXPECT_THAT(expand_paths({folder / "c.bin", folder / "*.txt", folder / "a[0-9].txt"}),
              ElementsAre(folder / "c.bin", folder / "B.txt", folder / "_.txt", folder / "a10.txt",
                          folder / "a9.txt", folder / "b.txt", folder / "a9.txt"));
}

TEST(ExpandPaths, PatternsMustMatch) {
  const TemporaryFolder folder;
  EXPECT_EQ(failure({"text", {folder / "*.txt"}}),
            "data.path: no file matches " + folder / "*.txt");
  EXPECT_EQ(failure({"text", {folder / "missing/*.txt"}}),
            "data.path: no file matches " + folder / "missing/*.txt");
}

TEST(FirstMissing, IsTheFirstPatternWithoutAFile) {
  const TemporaryFolder folder;
  const std::string there = folder.write("there.txt", "x");
  const auto missing = [](const std::vector<std::string>& patterns) {
    return first_missing(patterns, "data.path");
  };
  EXPECT_EQ(missing({}), "");
  EXPECT_EQ(missing({there, folder / "*.txt"}), "");
  for (const char* none : {"none.txt", "*.bin", "missing/*.txt", "missing/none.txt"}) {
    EXPECT_EQ(missing({there, folder / none, "/none"}), folder / none);
  }
}

}  // namespace
}  // namespace hidup
