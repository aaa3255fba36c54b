#include "runtime/pair_rates.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "comm/collective.h"
#include "runtime/lone_messages.h"

namespace hidup {
namespace {

constexpr int64_t kBytes = int64_t{1} << 20;  // of a message
constexpr int kExchanges = 5;                 // the first one warms up

}  // namespace

std::vector<RankPair> pairs_of(int64_t ranks) {
  constexpr int64_t kAllPairs = 64;  // ranks
  std::vector<RankPair> pairs;
  for (int64_t first = 0; first < ranks; ++first) {
    for (int64_t distance = 1; first + distance < ranks;
         distance = ranks <= kAllPairs ? distance + 1 : 2 * distance) {
      pairs.push_back({first, first + distance});
    }
  }
  return pairs;
}

// An exchange is a message there and one back; all other ranks are their own sources. The slower of
// the times of both ranks counts, because a sender may be done before its message has arrived.
std::vector<double> measure_pairs(Device& device, Communicator& world, Communicator& group,
                                  const std::vector<RankPair>& pairs) {
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Buffer> send;
  std::unique_ptr<Buffer> receive;
  collectively(world, [&] {
    stream = device.create_stream("comm", 1);
    send = device.allocate(kBytes);
    receive = device.allocate(kBytes);
  });
  const auto send_one = [&](Stream& in, int64_t from, int64_t to) {
    std::vector<int> sources(static_cast<size_t>(world.size()));
    std::iota(sources.begin(), sources.end(), 0);
    sources[static_cast<size_t>(to)] = static_cast<int>(from);
    group.move(in, send->data(), receive->data(), kBytes / size_of(DType::f32), sources, DType::f32,
               "a message between two ranks");
  };
  Repeated exchanges(device, *stream);
  std::vector<double> mine(pairs.size(), 0.0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    world.barrier();
    const RankPair& pair = pairs[i];
    exchanges.issue(kExchanges, {}, [&](Stream& in) {
      send_one(in, pair.first, pair.second);
      send_one(in, pair.second, pair.first);
    });
    const std::vector<double> took = lengths(exchanges.times());
    if (world.rank() == pair.first || world.rank() == pair.second) {
      mine[i] = *std::min_element(took.begin() + 1, took.end());
    }
  }
  const std::vector<std::byte> all = world.all_gather(std::as_bytes(std::span(mine)));
  std::vector<double> seconds(all.size() / sizeof(double));
  std::ranges::copy(all, std::as_writable_bytes(std::span(seconds)).begin());
  std::vector<double> rates(pairs.size(), 0.0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    double slower = 1e-9;
    for (size_t at = i; at < seconds.size(); at += pairs.size()) {
      slower = std::max(slower, seconds[at]);
    }
    rates[i] = 2.0 * static_cast<double>(kBytes) / slower;
  }
  return rates;
}

}  // namespace hidup
