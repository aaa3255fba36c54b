// Damaged decks either parse or end in Error(usage).
#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"
#include "deck_text.h"

namespace hidup {
namespace {

// A sequence of random numbers.
class Dice {
 public:
  explicit Dice(uint64_t round) : stream_(random_stream(7, "deck fuzz", round)) {}
  size_t below(size_t bound) { return stream_.word(next_++) % bound; }

 private:
  RandomStream stream_;
  uint64_t next_ = 0;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

void damage_bytes(std::string& text, Dice& dice) {
  static const std::string kAlphabet = "aZ09 -.:,#\n\t'\"[]{}&*!|>%@`?~\\<=\x04\x80\xFF";
  const size_t at = dice.below(text.size());
  switch (dice.below(3)) {
    case 0:
      text[at] = kAlphabet[dice.below(kAlphabet.size())];
      break;
    case 1:
      text.insert(at, 1 + dice.below(3), kAlphabet[dice.below(kAlphabet.size())]);
      break;
    default:
      text.erase(at, 1 + dice.below(6));
  }
}

void damage_lines(std::string& text, Dice& dice) {
  std::vector<std::string> lines = lines_of(text);
  const size_t from = dice.below(lines.size());
  const size_t to = dice.below(lines.size());
  switch (dice.below(4)) {
    case 0:
      std::swap(lines[from], lines[to]);
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(to), std::string(lines[from]));
      break;
    case 2:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(from));
      break;
    default:
      lines[from].insert(0, dice.below(4), ' ');
  }
  text.clear();
  for (const std::string& line : lines) {
    text += line;
  }
}

std::string damaged(std::string text, Dice& dice) {
  for (size_t times = 1 + dice.below(3); times > 0 && !text.empty(); --times) {
    dice.below(2) == 0 ? damage_bytes(text, dice) : damage_lines(text, dice);
  }
  return text;
}

TEST(Fuzz, DamagedDecksParseOrAreRefused) {
  const std::string model = resolved_yaml(parse(kModel), DeckFile::model);
  const std::string cluster = resolved_yaml(parse(kModel), DeckFile::cluster);
  int accepted = 0;
  int refused = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    Dice dice(round);
    const std::string bad_model = damaged(model, dice);
    const std::string bad_cluster = dice.below(2) == 0 ? cluster : damaged(cluster, dice);
    std::string problems;
    ASSERT_NO_THROW(problems = problems_of(bad_model, bad_cluster)) << bad_model << bad_cluster;
    ++(problems.empty() ? accepted : refused);
    if (problems.empty()) {
      const Deck deck = parse(bad_model, bad_cluster);
      EXPECT_EQ(
          problems_of(resolved_yaml(deck, DeckFile::model), resolved_yaml(deck, DeckFile::cluster)),
          "")
          << bad_model << bad_cluster;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

TEST(Fuzz, DamagedOverridesParseOrAreRefused) {
  const std::string good = "cluster.mesh=[{name: a, size: 2, latency: 3us}]";
  for (uint64_t round = 0; round < 3000; ++round) {
    Dice dice(round);
    std::string bad = good;
    for (size_t times = 1 + dice.below(4); times > 0; --times) {
      damage_bytes(bad, dice);
    }
    ASSERT_NO_THROW(problems_of(kModel, kCluster, {bad})) << bad;
  }
}

TEST(Fuzz, DeepNestingIsRefused) {
  EXPECT_NE(problems_of("model: " + std::string(100000, '[')), "");
  EXPECT_NE(problems_of("model: " + std::string(100000, '{')), "");
  EXPECT_NE(problems_of(std::string(5000, '-') + " a"), "");
}

}  // namespace
}  // namespace hidup
