#include "commands/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/median.h"

namespace hidup {
namespace {

constexpr double kRankMargin = 0.10;
constexpr double kLinkMargin = 0.25;

// Returns the value below which so many parts of the values lie, or 0 for no values.
double quantile(std::vector<double> values, double part) {
  if (values.empty()) {
    return 0.0;
  }
  const auto below = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size()));
  const auto at = values.begin() + std::min(below, std::ssize(values) - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

// Returns the median; of two values the faster one counts.
double upper_median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

std::string rank_text(const std::vector<RankRates>& rates, int64_t rank) {
  return fmt::format("rank {} ({})", rank, rates[static_cast<size_t>(rank)].host);
}

class LinkComparison {
 public:
  LinkComparison(const std::vector<RankRates>& rates, const std::vector<RankPair>& pairs,
                 const std::vector<double>& links)
      : rates_(rates), pairs_(pairs), links_(links) {}

  std::vector<double> of_rank(int64_t rank, bool across) const {
    std::vector<double> found;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      if (is_across(i) == across && (pairs_[i].first == rank || pairs_[i].second == rank)) {
        found.push_back(links_[i]);
      }
    }
    return found;
  }

  std::vector<std::string> slow(bool across) const {
    const double usual = usual_link(across);
    const auto is_slow = [&](double link) { return link < (1.0 - kLinkMargin) * usual; };
    const std::string like = across ? "between hosts" : "inside a host";
    std::vector<std::string> lines;
    std::set<int64_t> named;
    for (int64_t rank = 0; rank < std::ssize(rates_); ++rank) {
      const std::vector<double> own = of_rank(rank, across);
      const auto slow_ones = std::ranges::count_if(own, is_slow);
      if (std::ssize(own) > 1 && 2 * slow_ones > std::ssize(own)) {
        named.insert(rank);
        lines.push_back(
            fmt::format("{}: {} of its {} links {} are slow, {:.3g} GB/s by the median "
                        "of all of them; the usual is {:.3g} GB/s",
                        rank_text(rates_, rank), slow_ones, own.size(), like,
                        1e-9 * upper_median(own), 1e-9 * usual));
      }
    }
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const auto [first, second] = pairs_[i];
      if (is_across(i) == across && is_slow(links_[i]) && !named.contains(first) &&
          !named.contains(second)) {
        lines.push_back(fmt::format("{} and {}: {:.3g} GB/s; usual {} are {:.3g} GB/s",
                                    rank_text(rates_, first), rank_text(rates_, second),
                                    1e-9 * links_[i], like, 1e-9 * usual));
      }
    }
    return lines;
  }

 private:
  bool is_across(size_t pair) const {
    return rates_[static_cast<size_t>(pairs_[pair].first)].host !=
           rates_[static_cast<size_t>(pairs_[pair].second)].host;
  }

  // One slow rank has most links of few ranks. So every rank counts by its fast links.
  double usual_link(bool across) const {
    constexpr double kFast = 0.75;
    std::vector<double> fast;
    for (int64_t rank = 0; rank < std::ssize(rates_); ++rank) {
      if (const std::vector<double> own = of_rank(rank, across); !own.empty()) {
        fast.push_back(quantile(own, kFast));
      }
    }
    return upper_median(fast);
  }

  const std::vector<RankRates>& rates_;
  const std::vector<RankPair>& pairs_;
  const std::vector<double>& links_;
};

void add_slow_ranks(const std::vector<RankRates>& rates, double RankRates::*rate,
                    const std::string& name, const std::string& unit,
                    std::vector<std::string>& lines) {
  for (size_t rank = 0; rank < rates.size(); ++rank) {
    std::vector<double> others;
    for (size_t other = 0; other < rates.size(); ++other) {
      if (other != rank && rates[other].device == rates[rank].device) {
        others.push_back(rates[other].*rate);
      }
    }
    const double usual = upper_median(others);
    if (rates[rank].*rate < (1.0 - kRankMargin) * usual) {
      lines.push_back(fmt::format(
          "{}: {} at {:.3g} {}, {:.0f} % below the median of the other "
          "ranks of its class, {:.3g} {}",
          rank_text(rates, static_cast<int64_t>(rank)), name, 1e-9 * (rates[rank].*rate), unit,
          100.0 * (1.0 - rates[rank].*rate / usual), 1e-9 * usual, unit));
    }
  }
}

}  // namespace

std::vector<ClassRates> rates_of_classes(const std::vector<RankRates>& rates) {
  std::map<int64_t, std::vector<int>> ranks_of;  // numbers follow the first ranks
  for (size_t rank = 0; rank < rates.size(); ++rank) {
    ranks_of[rates[rank].device].push_back(static_cast<int>(rank));
  }
  std::vector<ClassRates> classes;
  for (const auto& [device, ranks] : ranks_of) {
    std::vector<double> products;
    std::vector<double> memory;
    for (const int rank : ranks) {
      products.push_back(rates[static_cast<size_t>(rank)].products);
      memory.push_back(rates[static_cast<size_t>(rank)].memory);
    }
    classes.push_back({.ranks = ranks,
                       .least_products = std::ranges::min(products),
                       .median_products = median(products),
                       .least_memory = std::ranges::min(memory),
                       .median_memory = median(memory),
                       .rated = rates[static_cast<size_t>(ranks.front())].rated});
  }
  return classes;
}

std::vector<std::string> what_is_slow(const std::vector<RankRates>& rates,
                                      const std::vector<RankPair>& pairs,
                                      const std::vector<double>& links) {
  std::vector<std::string> lines;
  add_slow_ranks(rates, &RankRates::products, "products", "Gflop/s", lines);
  add_slow_ranks(rates, &RankRates::memory, "memory", "GB/s", lines);
  const LinkComparison comparison(rates, pairs, links);
  for (const bool across : {false, true}) {
    for (const std::string& line : comparison.slow(across)) {
      lines.push_back(line);
    }
  }
  return lines;
}

double median_link(const std::vector<RankRates>& rates, const std::vector<RankPair>& pairs,
                   const std::vector<double>& links, int64_t rank, bool across) {
  return upper_median(LinkComparison(rates, pairs, links).of_rank(rank, across));
}

}  // namespace hidup
