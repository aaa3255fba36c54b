#include "train/expert_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/log.h"

namespace hidup {
namespace {

constexpr size_t kRecent = 20;      // number of steps that count as recent
constexpr double kManyDrops = 0.1;  // of the choices: more drops begin to cost quality
constexpr size_t kShownLayers = 6;  // the least even ones, where there are more

// Returns the value that this part of the sorted numbers does not exceed.
double percentile(const std::vector<double>& sorted, double part) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(part * last))];
}

}  // namespace

LayerLoad layer_load(std::span<const int64_t> tokens, std::span<const int64_t> dropped) {
  const auto sum = [](std::span<const int64_t> of) {
    return static_cast<double>(std::accumulate(of.begin(), of.end(), int64_t{0}));
  };
  const double all = sum(tokens);
  if (all == 0.0) {
    return {.idle = static_cast<double>(tokens.size())};
  }
  std::vector<double> loads;
  for (const int64_t each : tokens) {
    loads.push_back(static_cast<double>(each) * static_cast<double>(tokens.size()) / all);
  }
  std::ranges::sort(loads);
  return {.largest = loads.back(),
          .median = percentile(loads, 0.5),
          .p95 = percentile(loads, 0.95),
          .idle = static_cast<double>(std::ranges::count(tokens, 0)),
          .dropped = sum(dropped) / all};
}

void ExpertReport::step(std::span<const int64_t> tokens, std::span<const int64_t> dropped,
                        int64_t layers) {
  const size_t experts = layers == 0 ? 0 : tokens.size() / static_cast<size_t>(layers);
  StepLoads loads;
  for (size_t layer = 0; layer < static_cast<size_t>(layers); ++layer) {
    loads.push_back(layer_load(tokens.subspan(layer * experts, experts),
                               dropped.subspan(layer * experts, experts)));
  }
  recent_.push_back(std::move(loads));
  warned_.resize(static_cast<size_t>(layers));
  if (recent_.size() > kRecent) {
    recent_.pop_front();
  }
  if (recent_.size() < kRecent) {
    return;
  }
  warn_of_drops();
  for (size_t layer = 0; layer < warned_.size(); ++layer) {
    const LayerLoad mean = mean_of(layer);
    const bool uneven = expected_.warn_imbalance > 0.0 && mean.largest > expected_.warn_imbalance;
    if (uneven && !warned_[layer]) {
      warned_[layer] = true;
      log::warning("{} (model.moe.warn_imbalance {})", describe(layer), expected_.warn_imbalance);
    }
  }
}

void ExpertReport::warn_of_drops() {
  double dropped = 0.0;
  for (size_t layer = 0; layer < warned_.size(); ++layer) {
    dropped += mean_of(layer).dropped / static_cast<double>(warned_.size());
  }
  if (dropped > kManyDrops && !std::exchange(warned_of_drops_, true)) {
    log::warning(
        "the experts drop {:.1f} % of their tokens, which find no slot: a larger "
        "model.moe.capacity_factor or model.moe.balance_loss keeps more of them, and "
        "model.moe.capacity_factor none keeps all",
        100.0 * dropped);
  }
}

LayerLoad ExpertReport::mean_of(size_t layer) const {
  LayerLoad mean;
  for (const StepLoads& step : recent_) {
    const auto add = [&](double LayerLoad::*of) {
      mean.*of += step[layer].*of / static_cast<double>(recent_.size());
    };
    add(&LayerLoad::largest);
    add(&LayerLoad::median);
    add(&LayerLoad::p95);
    add(&LayerLoad::idle);
    add(&LayerLoad::dropped);
  }
  return mean;
}

std::string ExpertReport::describe(size_t layer) const {
  const LayerLoad mean = mean_of(layer);
  std::string expected;
  if (!expected_.largest.empty()) {
    expected = fmt::format(" (expected {:.2f})",
                           expected_.largest[std::min(layer, expected_.largest.size() - 1)]);
  }
  return fmt::format(
      "experts of MoE layer {}: the largest load is {:.2f} times the mean{}, median {:.2f}, "
      "95 % {:.2f}; idle {:.1f}; dropped {:.1f} %",
      layer, mean.largest, expected, mean.median, mean.p95, mean.idle, 100.0 * mean.dropped);
}

std::vector<std::string> ExpertReport::summary() const {
  std::vector<size_t> layers(recent_.empty() ? 0 : warned_.size());
  std::iota(layers.begin(), layers.end(), size_t{0});
  if (layers.size() > kShownLayers) {
    std::ranges::stable_sort(layers, std::greater<>(),
                             [&](size_t layer) { return mean_of(layer).largest; });
    layers.resize(kShownLayers);
    std::ranges::sort(layers);
  }
  std::vector<std::string> lines;
  std::ranges::transform(layers, std::back_inserter(lines),
                         [&](size_t layer) { return describe(layer); });
  if (warned_.size() > kShownLayers) {
    lines.push_back(fmt::format("(the least even {} of {} layers)", kShownLayers, warned_.size()));
  }
  return lines;
}

}  // namespace hidup
