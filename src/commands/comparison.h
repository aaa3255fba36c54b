// Compares the measured rates of ranks and links for `doctor --compare`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/pair_rates.h"

namespace hidup {

// The measured rates of one rank.
struct RankRates {
  std::string host;
  int64_t device = 0;     // number of its class of devices
  double products = 0.0;  // flop/s
  double memory = 0.0;    // bytes/s
  double rated = 0.0;     // flop/s that the deck says; 0: unknown
};

// The measured rates of a class of devices.
struct ClassRates {
  std::vector<int> ranks;  // rising
  double least_products = 0.0, median_products = 0.0;
  double least_memory = 0.0, median_memory = 0.0;
  double rated = 0.0;  // of a rank; 0: unknown
};

// Returns the classes in the order of their first ranks. `rates`: of every rank.
std::vector<ClassRates> rates_of_classes(const std::vector<RankRates>& rates);

// Returns a line per rank or pair that is slower than those like it: by 10 % than the median of the
// other ranks of its class; by 25 % than the usual pair in one host, or of different hosts. A rank
// of which most links to other hosts (or inside its host) are slow has one line for them. `rates`:
// of every rank; `links`: bytes/s of each pair.
std::vector<std::string> what_is_slow(const std::vector<RankRates>& rates,
                                      const std::vector<RankPair>& pairs,
                                      const std::vector<double>& links);

// Returns the median bytes/s of the rank's pairs with ranks of other hosts, or inside its host; 0
// where it has none.
double median_link(const std::vector<RankRates>& rates, const std::vector<RankPair>& pairs,
                   const std::vector<double>& links, int64_t rank, bool across);

}  // namespace hidup
