#include "app/expert_loads.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/file.h"
#include "core/text.h"
#include "deck/data_deck.h"
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

// The tokens of each expert of a layer over their mean, and where they are.
struct LayerLoads {
  std::vector<double> loads;
  int line;           // from 1
  bool after_blanks;  // an empty line is between these and the loads before
};

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

// Returns the lines of a text that are not empty and no comments. Throws Error(file) without any.
std::vector<LayerLoads> layers_of(const std::string& text, const std::string& file,
                                  int64_t experts) {
  std::vector<LayerLoads> layers;
  int number = 0;
  bool after_blanks = false;
  for (const std::string_view line : split(text, '\n')) {
    const std::string place = fmt::format("{}:{}", file, ++number);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      after_blanks = !layers.empty();
    } else if (!line.starts_with('#')) {
      layers.push_back({over_mean(numbers_of(line, place), experts, place), number,
                        std::exchange(after_blanks, false)});
    }
  }
  if (layers.empty()) {
    fail(ExitCode::file, "{}: expected a line per layer with experts, found none", file);
  }
  return layers;
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
  for (LayerLoads& layer : layers_of(text, moe.load, moe.experts)) {
    moe.loads.push_back(std::make_shared<const std::vector<double>>(std::move(layer.loads)));
  }
  return deck;
}

std::string trace_text(const Deck& deck) {
  const std::string& file = deck.data->trace;
  return file.empty() ? "" : read_text_file(file, "recorded loads");
}

Deck with_trace(Deck deck, const std::string& text) {
  const std::string& file = deck.data->trace;
  if (file.empty()) {
    return deck;
  }
  const int64_t layers = deck.model->expert_layers();
  std::vector<std::vector<double>> traced;
  int64_t of_sample = 0;
  int last = 0;
  const auto end_sample = [&] {
    if (of_sample != layers) {
      fail(ExitCode::file,
           "{}:{}: expected {} line(s) in a sample, one per layer with experts, found {}", file,
           last, layers, of_sample);
    }
    of_sample = 0;
  };
  for (LayerLoads& layer : layers_of(text, file, deck.model->moe.experts)) {
    if (layer.after_blanks) {
      end_sample();
    }
    ++of_sample;
    last = layer.line;
    traced.push_back(std::move(layer.loads));
  }
  end_sample();
  deck.data->traced = std::make_shared<const std::vector<std::vector<double>>>(std::move(traced));
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
