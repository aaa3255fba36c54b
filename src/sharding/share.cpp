#include "sharding/share.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

struct Claim {
  int64_t weight;
  int64_t divisor;
  size_t rank;

  // Returns true if the other claim gets its seat first.
  bool operator<(const Claim& other) const {
    const int64_t mine = weight * other.divisor;
    const int64_t others = other.weight * divisor;
    return mine != others ? mine < others : rank > other.rank;
  }
};

}  // namespace

Share reduced(Share share) {
  const int64_t divisor = std::accumulate(share.begin(), share.end(), int64_t{0},
                                          [](int64_t a, int64_t b) { return std::gcd(a, b); });
  for (int64_t& weight : share) {
    weight /= std::max<int64_t>(divisor, 1);
  }
  return share;
}

std::vector<int64_t> seats_of(const Share& share, int64_t seats) {
  const int64_t total = std::reduce(share.begin(), share.end(), int64_t{0});
  const auto ranks = static_cast<int64_t>(share.size());
  check(total > 0, "a share of no rank");
  // Grants all claims of at least total / (2 x), with x = seats - ranks / 2: at most `seats`, each
  // rank's rounded quota. The other seats, at most one per rank, are granted one by one.
  const int64_t twice_x = std::max<int64_t>(2 * seats - ranks, 0);
  std::vector<int64_t> given;
  given.reserve(share.size());
  int64_t left = seats;
  for (const int64_t weight : share) {
    given.push_back((weight * twice_x + total) / (2 * total));
    left -= given.back();
  }
  if (left == 0) {
    return given;
  }
  std::vector<Claim> of_ranks;
  of_ranks.reserve(share.size());
  for (size_t rank = 0; rank < share.size(); ++rank) {
    if (share[rank] > 0) {
      of_ranks.push_back({share[rank], 2 * given[rank] + 1, rank});
    }
  }
  std::priority_queue<Claim> claims(std::less<Claim>(), std::move(of_ranks));
  for (; left > 0; --left) {
    Claim claim = claims.top();
    claims.pop();
    ++given[claim.rank];
    claim.divisor += 2;
    claims.push(claim);
  }
  return given;
}

std::vector<int64_t> offsets_of(const Share& share, int64_t extent, int64_t start) {
  const std::vector<int64_t> before = seats_of(share, start);
  const std::vector<int64_t> after = seats_of(share, start + extent);
  std::vector<int64_t> offsets = {0};
  for (size_t rank = 0; rank < share.size(); ++rank) {
    offsets.push_back(offsets.back() + after[rank] - before[rank]);
  }
  return offsets;
}

}  // namespace hidup
