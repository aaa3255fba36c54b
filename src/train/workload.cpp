#include "train/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/random.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "graph/graph.h"
#include "train/batches.h"

namespace hidup {
namespace {

using Weights = std::vector<double>;

// Returns weights of mean 1. `hot` experts have `heat` each, the others the rest alike.
Weights heated(int64_t experts, const std::vector<int64_t>& hot, double heat) {
  const double rest = static_cast<double>(experts) - static_cast<double>(hot.size()) * heat;
  const double others = static_cast<double>(experts - std::ssize(hot));
  Weights weights(static_cast<size_t>(experts), others > 0.0 ? std::max(0.0, rest / others) : 0.0);
  for (const int64_t expert : hot) {
    weights[static_cast<size_t>(expert)] = heat;
  }
  return weights;
}

// Returns a part of the experts, at least as many as a token chooses.
int64_t part_of(const MoeDeck& moe, int64_t numerator, int64_t denominator) {
  return std::max(moe.choices(), moe.experts * numerator / denominator);
}

// Returns `count` experts in a row from `first` on, around the end.
std::vector<int64_t> in_a_row(const MoeDeck& moe, int64_t first, int64_t count) {
  std::vector<int64_t> experts;
  for (int64_t i = 0; i < count; ++i) {
    experts.push_back((first + i) % moe.experts);
  }
  return experts;
}

// Heats, loads over the mean. With eight experts of which two lie on each of four ranks, and two
// choices, the largest load of a rank over the mean has the same value.
constexpr double kHotExperts = 53.0 / 16;  // 3.3125
constexpr double kHotRank = 103.0 / 32;    // 3.21875
constexpr double kSpread = 41.0 / 32;      // 1.28125
constexpr double kRagged = 41.0 / 32;      // 1.28125
constexpr double kBusy = 69.0 / 32;        // 2.15625
constexpr double kLessBusy = 59.0 / 32;    // 1.84375
constexpr double kSteady = 39.0 / 32;      // 1.21875
constexpr double kBurst = 5.0 / 2;

Weights balanced(const Deck& deck, const WorkloadAt&) {
  return heated(deck.model->moe.experts, {}, 0.0);
}

Weights hot_experts(const Deck& deck, const WorkloadAt&) {
  const MoeDeck& moe = deck.model->moe;
  return heated(moe.experts, in_a_row(moe, 0, part_of(moe, 1, 8)), kHotExperts);
}

Weights hot_quarter(const MoeDeck& moe, double heat) {
  return heated(moe.experts, in_a_row(moe, 0, part_of(moe, 1, 4)), heat);
}

Weights hot_rank(const Deck& deck, const WorkloadAt&) {
  return hot_quarter(deck.model->moe, kHotRank);
}

// Five eighths of the experts, evenly apart, share the heat that hot-rank has on a quarter.
Weights spread(const Deck& deck, const WorkloadAt&) {
  const MoeDeck& moe = deck.model->moe;
  const int64_t count = part_of(moe, 5, 8);
  std::vector<int64_t> hot;
  for (int64_t i = 0; i < count; ++i) {
    hot.push_back(i * moe.experts / count);
  }
  return heated(moe.experts, hot, kSpread);
}

Weights ragged(const Deck& deck, const WorkloadAt&) {
  return hot_quarter(deck.model->moe, kRagged);
}

// Half of the experts are idle; of the others one half has somewhat more than the other.
Weights idle(const Deck& deck, const WorkloadAt&) {
  const MoeDeck& moe = deck.model->moe;
  const int64_t live = part_of(moe, 1, 2);
  Weights weights(static_cast<size_t>(moe.experts), 0.0);
  for (int64_t e = 0; e < live; ++e) {
    weights[static_cast<size_t>(e)] = 2 * e < live ? kBusy : kLessBusy;
  }
  return weights;
}

Weights moving(const Deck& deck, const WorkloadAt& at) {
  const MoeDeck& moe = deck.model->moe;
  const int64_t count = part_of(moe, 1, 8);
  const int64_t first = (at.step - 1) / 3 * count % moe.experts;
  return heated(moe.experts, in_a_row(moe, first, count), kHotExperts);
}

Weights burst(const Deck& deck, const WorkloadAt& at) {
  return hot_quarter(deck.model->moe, at.step % 4 == 0 ? kBurst : kSteady);
}

Weights log_normal(const Deck& deck, const WorkloadAt& at) {
  const MoeDeck& moe = deck.model->moe;
  const RandomStream random =
      random_stream(deck.train->seed, "workload/loads", static_cast<uint64_t>(at.layer));
  Weights weights;
  for (int64_t e = 0; e < moe.experts; ++e) {
    const double normal = static_cast<double>(random.normal(static_cast<uint64_t>(e)));
    weights.push_back(std::exp(moe.sigma * normal));
  }
  return weights;
}

Weights traced(const Deck& deck, const WorkloadAt& at) {
  check(deck.data->traced != nullptr, "no recorded loads were read");
  const std::vector<Weights>& all = *deck.data->traced;
  const int64_t layers = deck.model->expert_layers();
  const int64_t sample = (at.step - 1) % (std::ssize(all) / layers);
  return all.at(static_cast<size_t>(sample * layers + at.layer));
}

struct WorkloadSpec {
  std::string_view router;  // the value of model.moe.router
  Weights (*weights)(const Deck& deck, const WorkloadAt& at);
  // Tokens have their experts in the batch's order, so that each part of the batch chooses others.
  bool in_order = false;
};

constexpr WorkloadSpec kWorkloads[] = {
    {"trace", traced},      {"log-normal", log_normal},   {"balanced", balanced},
    {"hot-rank", hot_rank}, {"hot-experts", hot_experts}, {"spread", spread},
    {"idle", idle},         {"ragged", ragged, true},     {"moving", moving},
    {"burst", burst},
};

const WorkloadSpec& spec_of(std::string_view router) {
  const auto* found = std::ranges::find(kWorkloads, router, &WorkloadSpec::router);
  check(found != std::end(kWorkloads), "{} is no workload", router);
  return *found;
}

// Divides tokens * choices in proportion to the weights, at most `tokens` to one. The choices that
// the experts with a weight cannot take go to the others alike.
std::vector<int64_t> divide(Weights weights, int64_t tokens, int64_t choices) {
  std::vector<int64_t> loads(weights.size(), -1);  // -1: not known yet
  int64_t left = tokens * choices;
  Weights quotas(weights.size());
  for (bool again = true; std::exchange(again, false);) {
    const auto open = [&](size_t e) { return loads[e] < 0; };
    double sum = 0.0;
    for (size_t e = 0; e < weights.size(); ++e) {
      sum += open(e) ? weights[e] : 0.0;
    }
    if (sum == 0.0) {
      std::ranges::fill(weights, 1.0);
      sum = static_cast<double>(std::ranges::count(loads, -1));
    }
    const double each = static_cast<double>(left) / sum;
    for (size_t e = 0; e < weights.size(); ++e) {
      quotas[e] = open(e) ? weights[e] * each : 0.0;
      if (open(e) && quotas[e] > static_cast<double>(tokens)) {
        loads[e] = tokens;
        left -= tokens;
        again = true;
      }
    }
  }
  std::vector<size_t> order;
  for (size_t e = 0; e < weights.size(); ++e) {
    if (loads[e] < 0) {
      loads[e] = static_cast<int64_t>(quotas[e]);
      left -= loads[e];
      order.push_back(e);
    }
  }
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t e) { return quotas[e] - static_cast<double>(loads[e]); });
  for (int64_t i = 0; i < left; ++i) {
    ++loads[order[static_cast<size_t>(i)]];
  }
  return loads;
}

// Chooses by random numbers: choice c of the token with index t is (word(t) + c) % experts.
std::vector<int32_t> hashed(const Deck& deck, const WorkloadAt& at, const Region& part) {
  const RandomStream random = random_stream(deck.train->seed, fmt::format("workload/{}", at.layer));
  const int64_t choices = part.global[2];
  const auto experts = static_cast<uint64_t>(deck.model->moe.experts);
  std::vector<int32_t> chosen;
  for (int64_t i = 0; i < part.elements(); ++i) {
    const auto index = static_cast<uint64_t>(part.global_index(i));
    const auto token = index / static_cast<uint64_t>(choices);
    const auto choice = index % static_cast<uint64_t>(choices);
    chosen.push_back(static_cast<int32_t>((random.word(token) + choice) % experts));
  }
  return chosen;
}

}  // namespace

std::vector<int64_t> workload_loads(const Deck& deck, const WorkloadAt& at, int64_t tokens) {
  const MoeDeck& moe = deck.model->moe;
  return divide(spec_of(moe.router).weights(deck, at), tokens, moe.choices());
}

std::vector<int32_t> workload_choices(const Deck& deck, const WorkloadAt& at, const Region& part) {
  if (deck.model->moe.router == "hash") {
    return hashed(deck, at, part);
  }
  const int64_t choices = part.global[2];
  const int64_t tokens = part.global[0] * part.global[1];
  std::vector<int64_t> ends = workload_loads(deck, at, tokens);
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  const Permutation permutation(
      tokens, random_stream(deck.train->seed, fmt::format("workload/{}", at.layer),
                            static_cast<uint64_t>(at.step)));
  const bool in_order = spec_of(deck.model->moe.router).in_order;
  std::vector<int32_t> chosen;
  int64_t known = -1;  // the token whose place is known
  int64_t place = 0;
  for (int64_t i = 0; i < part.elements(); ++i) {
    const int64_t index = part.global_index(i);
    if (const int64_t token = index / choices; token != known) {
      known = token;
      place = in_order ? token : permutation(token);
    }
    const int64_t choice = place + index % choices * tokens;
    chosen.push_back(static_cast<int32_t>(std::ranges::upper_bound(ends, choice) - ends.begin()));
  }
  return chosen;
}

std::vector<std::vector<int32_t>> choices_of(const Program& program, int64_t rank, const Deck& deck,
                                             int64_t step) {
  std::vector<std::vector<int32_t>> parts;
  for (const ValueId id : program.choices) {
    const std::string& name = program.value(id).name;
    int64_t layer = -1;
    std::from_chars(name.data() + kChoices.size(), name.data() + name.size(), layer);
    check(layer >= 0, "{} is of no layer", name);
    parts.push_back(workload_choices(deck, {step, layer}, program.region(id, rank)));
  }
  return parts;
}

}  // namespace hidup
