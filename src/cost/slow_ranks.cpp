#include "cost/slow_ranks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "core/median.h"

namespace hidup {
namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::string_view name_of(OperationClass operations) {
  switch (operations) {
    case OperationClass::products:
      return "products";
    case OperationClass::attention:
      return "attention";
    case OperationClass::memory:
      return "memory-bound operations";
  }
  return "";
}

SlowRanks::SlowRanks(std::vector<WatchedPart> parts) {
  go_on_with(std::move(parts));
}

void SlowRanks::go_on_with(std::vector<WatchedPart> parts) {
  parts_ = std::move(parts);
  check(std::ranges::is_partitioned(parts_, &WatchedPart::computes),
        "watched messages precede computations");
  states_.resize(static_cast<size_t>(std::ranges::count_if(parts_, &WatchedPart::computes)));
  states_.resize(parts_.size());  // messages have other sizes now
}

std::vector<SlowNews> SlowRanks::add(const WatchedBlock& block) {
  check(block.times.size() == parts_.size(), "times of {} parts, expected {}", block.times.size(),
        parts_.size());
  const std::vector<Paces> paces = paces_of(block);
  const std::vector<std::optional<Comparison>> found = compare(paces);
  std::vector<SlowNews> news;
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (!std::isfinite(paces[part].whole)) {
      continue;
    }
    const Comparison unknown{.reference = paces[part]};
    if (std::optional<SlowNews> one =
            update(part, block, paces[part], found[part].value_or(unknown))) {
      news.push_back(*one);
    }
  }
  return news;
}

std::vector<SlowRanks::Paces> SlowRanks::paces_of(const WatchedBlock& block) const {
  std::vector<Paces> all;
  for (size_t part = 0; part < parts_.size(); ++part) {
    const std::vector<double>& expected = parts_[part].expected;
    const std::vector<double>& times = block.times[part];
    check(times.size() == expected.size(), "{} times of a part, expected {}", times.size(),
          expected.size());
    Paces& paces = all.emplace_back(Paces{.whole = sum(times) / sum(expected)});
    for (size_t i = 0; i < times.size(); ++i) {
      paces.classes.push_back(times[i] / expected[i]);
    }
  }
  return all;
}

std::vector<std::optional<SlowRanks::Comparison>> SlowRanks::compare(
    const std::vector<Paces>& paces) const {
  std::vector<double> slowdowns;  // of ranks since earlier blocks
  for (size_t rank = 0; rank < parts_.size() && parts_[rank].computes(); ++rank) {
    const auto past = against_past(rank, paces[rank], 1.0);
    slowdowns.push_back(past ? std::max(1.0, 1.0 + past->excess) : 1.0);
  }
  // Everything became slower by this factor, such as a machine that does other work, too.
  const double common = slowdowns.empty() ? 1.0 : std::ranges::min(slowdowns);
  std::vector<std::optional<Comparison>> all(parts_.size());
  for (size_t rank = 0; rank < slowdowns.size(); ++rank) {
    all[rank] = against_others(rank, paces, 1.0);
    if (all[rank]) {
      slowdowns[rank] = std::max(slowdowns[rank], 1.0 + all[rank]->excess);
    } else {
      all[rank] = against_past(rank, paces[rank], common);
    }
  }
  // A rank that computes slowly also slows the messages of its groups: CPU ranks copy and add.
  for (size_t part = slowdowns.size(); part < parts_.size(); ++part) {
    double slowdown = 1.0;
    for (size_t rank = 0; rank < slowdowns.size(); ++rank) {
      if (std::ranges::count(parts_[part].ranks, parts_[rank].ranks.front()) > 0) {
        slowdown = std::max(slowdown, slowdowns[rank]);
      }
    }
    const auto others = against_others(part, paces, slowdown);
    const auto past = against_past(part, paces[part], slowdown);
    all[part] = others && past ? (past->excess > others->excess ? past : others)
                : others       ? others
                               : past;
  }
  return all;
}

std::optional<SlowRanks::Comparison> SlowRanks::against_others(size_t part,
                                                               const std::vector<Paces>& paces,
                                                               double allowed) const {
  std::vector<size_t> others;
  for (size_t other = 0; other < parts_.size(); ++other) {
    if (other != part && is_like(part, other) && std::isfinite(paces[other].whole)) {
      others.push_back(other);
    }
  }
  if (others.empty()) {
    return std::nullopt;
  }
  const size_t middle = (others.size() - 1) / 2;
  std::ranges::nth_element(others, others.begin() + static_cast<std::ptrdiff_t>(middle), {},
                           [&](size_t other) { return paces[other].whole; });
  Comparison found{.reference = {.whole = paces[others[middle]].whole}};
  for (size_t i = 0; i < paces[part].classes.size(); ++i) {
    std::vector<double> classes;
    for (const size_t other : others) {
      if (std::isfinite(paces[other].classes[i])) {  // 0 / 0 for a class without operations
        classes.push_back(paces[other].classes[i]);
      }
    }
    found.reference.classes.push_back(classes.empty() ? paces[part].classes[i] : median(classes));
  }
  const double sizes = sum(parts_[part].expected) / sum(parts_[others[middle]].expected);
  found.excess = paces[part].whole / (allowed * found.reference.whole) - 1.0;
  found.excess -= std::copysign(
      std::min(std::abs(found.excess), kSizeError * std::abs(std::log(sizes))), found.excess);
  return found;
}

std::optional<SlowRanks::Comparison> SlowRanks::against_past(size_t part, const Paces& paces,
                                                             double allowed) const {
  const std::deque<Sample>& usual = states_[part].usual;
  if (usual.size() < kBlocks) {
    return std::nullopt;
  }
  const auto past = [&](const auto& pick) {
    std::vector<double> values;
    values.reserve(usual.size());
    for (const Sample& sample : usual) {
      values.push_back(pick(sample));
    }
    return median(values);
  };
  Comparison found{.reference = {.whole = past([](const Sample& s) { return s.paces.whole; })}};
  for (size_t i = 0; i < paces.classes.size(); ++i) {
    found.reference.classes.push_back(past([i](const Sample& s) { return s.paces.classes[i]; }));
  }
  found.excess = paces.whole / (allowed * found.reference.whole) - 1.0;
  return found;
}

std::optional<SlowNews> SlowRanks::update(size_t part, const WatchedBlock& block,
                                          const Paces& paces, const Comparison& found) {
  State& state = states_[part];
  if (state.slow) {
    return look_for_end(part, block, found.excess);
  }
  const double time = sum(block.times[part]);
  const bool costs = time - time / (1.0 + found.excess) > kLeastCost * block.step_s;
  const Sample sample{.paces = paces, .excess = found.excess};
  if (found.excess <= kMargin || !costs) {
    for (const Sample& one : state.streak) {
      keep(state, one);
    }
    state.streak.clear();
    keep(state, sample);
    return std::nullopt;
  }
  state.since = state.streak.empty() ? block.first : state.since;
  state.streak.push_back(sample);
  if (state.streak.size() < kBlocks) {
    return std::nullopt;
  }
  while (state.streak.size() > kBlocks) {
    state.streak.pop_front();
  }
  std::vector<double> excesses;
  for (const Sample& one : state.streak) {
    excesses.push_back(one.excess);
  }
  const double excess = median(excesses);
  if (excess <= kSpreads * std::max(spread(excesses), usual_spread(part))) {
    return std::nullopt;
  }
  state.slow = true;
  state.fast_blocks = 0;
  state.streak.clear();
  SlowNews news{.part = part, .since = state.since, .slower_by = excess};
  blame(part, block.times[part], paces, found.reference, news);
  return news;
}

std::optional<SlowNews> SlowRanks::look_for_end(size_t part, const WatchedBlock& block,
                                                double excess) {
  State& state = states_[part];
  if (excess > kMargin / 2.0) {
    state.fast_blocks = 0;
    return std::nullopt;
  }
  state.since = state.fast_blocks == 0 ? block.first : state.since;
  if (++state.fast_blocks < kBlocks) {
    return std::nullopt;
  }
  state.slow = false;
  return SlowNews{.part = part, .over = true, .since = state.since};
}

// Few blocks say little about the spread, so those of all parts like this one count.
double SlowRanks::usual_spread(size_t part) const {
  std::vector<double> excesses;
  for (size_t other = 0; other < parts_.size(); ++other) {
    if (is_like(part, other)) {
      for (const Sample& one : states_[other].usual) {
        excesses.push_back(one.excess);
      }
    }
  }
  return spread(excesses);
}

void SlowRanks::keep(State& state, const Sample& sample) {
  state.usual.push_back(sample);
  if (state.usual.size() > kMemory) {
    state.usual.pop_front();
  }
}

// Finds the class in which the rank loses most time.
void SlowRanks::blame(size_t part, const std::vector<double>& times, const Paces& paces,
                      const Paces& reference, SlowNews& news) const {
  if (!parts_[part].computes()) {
    return;
  }
  double most = 0.0;
  for (size_t i = 0; i < times.size(); ++i) {
    const double lost = times[i] * (1.0 - reference.classes[i] / paces.classes[i]);
    if (lost > most) {
      most = lost;
      news.operations = static_cast<OperationClass>(i);
      news.operations_slower_by = paces.classes[i] / reference.classes[i] - 1.0;
    }
  }
}

}  // namespace hidup
