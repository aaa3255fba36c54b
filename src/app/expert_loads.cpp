#include "app/expert_loads.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/file.h"
#include "core/text.h"
#include "deck/model_deck.h"

namespace hidup {
namespace {

// Returns the numbers of a line, apart by commas or blanks.
std::vector<double> numbers_of(std::string_view line, const std::string& place) {
  std::string text(line);
  std::ranges::replace(text, ',', ' ');
  std::vector<double> numbers;
  for (const std::string_view word : split(text, ' ')) {
    if (word.empty()) {
      continue;
    }
    double number = 0.0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(number) ||
        number < 0.0) {
      fail(ExitCode::file, "{}: expected the tokens of an expert, a number of at least 0, found {}",
           place, shown(word));
    }
    numbers.push_back(number);
  }
  return numbers;
}

// Returns the numbers over their mean.
std::vector<double> over_mean(std::vector<double> numbers, int64_t experts,
                              const std::string& place) {
  if (std::ssize(numbers) != experts) {
    fail(ExitCode::file, "{}: expected {} numbers, one per expert (model.moe.experts), found {}",
         place, experts, numbers.size());
  }
  const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
  if (sum <= 0.0) {
    fail(ExitCode::file, "{}: no expert has a token", place);
  }
  for (double& number : numbers) {
    number *= static_cast<double>(experts) / sum;
  }
  return numbers;
}

}  // namespace

std::string expert_loads_text(const Deck& deck) {
  const std::string& file = deck.model->moe.load;
  return file.empty() ? "" : read_text_file(file, "expert loads");
}

Deck with_expert_loads(Deck deck, const std::string& text) {
  MoeDeck& moe = deck.model->moe;
  if (moe.load.empty()) {
    return deck;
  }
  int line_number = 0;
  for (const std::string_view line : split(text, '\n')) {
    const std::string place = fmt::format("{}:{}", moe.load, ++line_number);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos && !line.starts_with('#')) {
      moe.loads.push_back(std::make_shared<const std::vector<double>>(
          over_mean(numbers_of(line, place), moe.experts, place)));
    }
  }
  if (moe.loads.empty()) {
    fail(ExitCode::file, "{}: expected a line per layer with experts, found none", moe.load);
  }
  return deck;
}

ExpertExpectation expected_of_experts(const Deck& deck) {
  const MoeDeck& moe = deck.model->moe;
  ExpertExpectation expected{.warn_imbalance = moe.warn_imbalance};
  for (const auto& loads : moe.loads) {
    expected.largest.push_back(std::ranges::max(*loads));
  }
  if (moe.loads.empty() && !moe.capacity_factor) {
    expected.largest = {1.0};
  }
  return expected;
}

}  // namespace hidup
