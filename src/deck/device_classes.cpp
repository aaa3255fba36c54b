#include "deck/device_classes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace hidup {
namespace {

constexpr size_t kNoItem = std::numeric_limits<size_t>::max();
constexpr const char* kAuto = "auto";
constexpr int64_t kMostRanks = 1000000;  // as `count`

// Returns the number; none unless the text is one.
std::optional<int64_t> rank_in(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  const size_t last = text.find_last_not_of(' ');
  int64_t rank = 0;
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  text = text.substr(first, last - first + 1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && rank >= 0 && rank < kMostRanks ? std::optional(rank) : std::nullopt;
}

std::string name_of(size_t item) {
  return fmt::format("cluster.devices[{}]", item);
}

std::string number_of_ranks(size_t count) {
  return fmt::format("{} rank{}", count, count == 1 ? "" : "s");
}

// Returns all values on which a device's pace depends.
auto pace_of(const DeviceClass& device) {
  return std::tuple(device.kind, device.threads, device.flops, device.flops_16bit,
                    device.memory_bandwidth);
}

// Gives the items their ranks.
class Division {
 public:
  Division(const std::vector<DeviceClass>& devices, int64_t ranks)
      : devices_(devices), ranks_(ranks) {}

  DividedRanks run() {
    for (size_t item = 0; item < devices_.size() && !divided_.misfit; ++item) {
      count(item);
    }
    check_sum();
    if (!divided_.misfit) {
      divided_.items.assign(static_cast<size_t>(ranks_), kNoItem);
    }
    for (size_t item = 0; item < devices_.size() && !divided_.misfit; ++item) {
      take_named(item);
    }
    for (size_t item = 0; item < devices_.size() && !divided_.misfit; ++item) {
      take_next(item);
    }
    return std::move(divided_);
  }

 private:
  void refuse(const std::string& key, const std::string& message) {
    divided_ = {.items = {}, .misfit = Misfit{key, fmt::format("{}: {}", key, message)}};
  }

  void count(size_t item) {
    const DeviceClass& device = devices_[item];
    named_.push_back(device.ranks == kAuto ? std::nullopt : parse_ranks(device.ranks));
    if (device.ranks != kAuto && !named_.back()) {
      refuse(
          name_of(item) + ".ranks",
          fmt::format("expected ranks such as 0-7, or '0-7, 12', found {}", shown(device.ranks)));
    } else if (device.ranks == kAuto && device.host != kAuto && !device.count) {
      refuse(name_of(item) + ".host",
             fmt::format("the ranks on {} are known in a run only: say their count, too",
                         shown(device.host)));
    }
    counts_.push_back(named_.back() ? static_cast<int64_t>(named_.back()->size())
                                    : device.count.value_or(1));
  }

  void check_sum() {
    int64_t sum = 0;
    for (const int64_t each : counts_) {
      sum += each;
    }
    if (!divided_.misfit && sum != ranks_) {
      refuse("cluster.devices", fmt::format("{} = {} device(s), but there are {} rank(s)",
                                            fmt::join(counts_, " + "), sum, ranks_));
    }
  }

  void take_named(size_t item) {
    const std::string key = name_of(item) + ".ranks";
    for (const int64_t rank : named_[item].value_or(std::vector<int64_t>())) {
      if (rank >= ranks_) {
        return refuse(key, fmt::format("there is no rank {}, but {} ranks", rank, ranks_));
      }
      size_t& taken = divided_.items[static_cast<size_t>(rank)];
      if (taken != kNoItem) {
        return refuse(key, fmt::format("rank {} is one of {}, too", rank, name_of(taken)));
      }
      taken = item;
    }
  }

  void take_next(size_t item) {
    std::vector<size_t>& items = divided_.items;
    for (int64_t left = named_[item] ? 0 : counts_[item]; left > 0; ++next_) {
      if (items.at(next_) == kNoItem) {
        items[next_] = item;
        --left;
      }
    }
  }

  const std::vector<DeviceClass>& devices_;
  const int64_t ranks_;
  std::vector<std::optional<std::vector<int64_t>>> named_;  // by item
  std::vector<int64_t> counts_;                             // ranks by item
  size_t next_ = 0;                                         // the ranks before it have items
  DividedRanks divided_;
};

}  // namespace

std::optional<std::vector<int64_t>> parse_ranks(const std::string& text) {
  std::vector<int64_t> ranks;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view range = std::string_view(text).substr(begin, end - begin);
    const size_t dash = range.find('-');
    const auto first = rank_in(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : rank_in(range.substr(dash + 1));
    if (!first || !last || *last < *first) {
      return std::nullopt;
    }
    for (int64_t rank = *first; rank <= *last; ++rank) {
      ranks.push_back(rank);
    }
    begin = end + 1;
  }
  std::ranges::sort(ranks);
  const bool twice = std::ranges::adjacent_find(ranks) != ranks.end();
  return twice ? std::nullopt : std::optional(std::move(ranks));
}

std::string print_ranks(const std::vector<int64_t>& ranks) {
  return format_numbers(std::vector<int>(ranks.begin(), ranks.end()));
}

DividedRanks divide_ranks(const ClusterDeck& cluster, int64_t ranks) {
  return cluster.devices.empty() ? DividedRanks() : Division(cluster.devices, ranks).run();
}

std::vector<DeviceClass> device_classes(const ClusterDeck& cluster) {
  std::vector<DeviceClass> devices = cluster.devices;
  devices.resize(std::max<size_t>(devices.size(), 1));
  for (DeviceClass& device : devices) {
    device.kind = device.kind == kAuto ? cluster.device_kind : device.kind;
    device.threads = device.threads ? device.threads : cluster.device_threads;
    device.memory = device.memory ? device.memory : cluster.device_memory;
    if (!device.flops) {
      device.flops = cluster.device_flops;
      device.flops_16bit = device.flops_16bit ? device.flops_16bit : cluster.flops_16bit;
      device.memory_bandwidth =
          device.memory_bandwidth ? device.memory_bandwidth : cluster.memory_bandwidth;
    }
  }
  return devices;
}

std::vector<size_t> classes_of_ranks(const ClusterDeck& cluster, int64_t ranks) {
  DividedRanks divided = divide_ranks(cluster, ranks);
  check(!divided.misfit, "{}", divided.misfit ? divided.misfit->message : "");
  divided.items.resize(static_cast<size_t>(ranks));  // all of the only class without items
  return std::move(divided.items);
}

std::vector<int64_t> alike_devices(const ClusterDeck& cluster, int64_t ranks) {
  std::map<decltype(pace_of(DeviceClass())), int64_t> known;
  const std::vector<DeviceClass> devices = device_classes(cluster);
  std::vector<int64_t> numbers;
  for (const size_t item : divide_ranks(cluster, ranks).items) {
    const auto next = static_cast<int64_t>(known.size());
    numbers.push_back(known.try_emplace(pace_of(devices[item]), next).first->second);
  }
  numbers.resize(static_cast<size_t>(ranks));
  return numbers;
}

DeviceClass device_of_rank(const ClusterDeck& cluster, int64_t rank, int64_t ranks) {
  const DividedRanks divided = divide_ranks(cluster, ranks);
  if (divided.items.empty()) {
    ClusterDeck alike = cluster;
    alike.devices.clear();
    return device_classes(alike).front();
  }
  return device_classes(cluster)[divided.items.at(static_cast<size_t>(rank))];
}

Deck with_hosts(Deck deck, const std::vector<std::string>& hosts) {
  for (size_t item = 0; item < deck.cluster->devices.size(); ++item) {
    DeviceClass& device = deck.cluster->devices[item];
    if (device.host == kAuto || device.ranks != kAuto) {
      continue;
    }
    std::vector<int64_t> ranks;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (matches(device.host, hosts[rank])) {
        ranks.push_back(static_cast<int64_t>(rank));
      }
    }
    const std::string key = name_of(item) + ".host";
    if (ranks.empty()) {
      fail_at(deck, key,
              fmt::format("{}: no rank is on {}; the hosts are {}", key, shown(device.host),
                          fmt::join(std::set(hosts.begin(), hosts.end()), ", ")));
    }
    if (device.count && *device.count != static_cast<int64_t>(ranks.size())) {
      fail_at(deck, key,
              fmt::format("{}: {} on {}, but the item's count is {}", key,
                          number_of_ranks(ranks.size()), shown(device.host), *device.count));
    }
    device.ranks = print_ranks(ranks);
    device.host = kAuto;
    device.count.reset();
  }
  return deck;
}

bool counts_ranks(const ClusterDeck& cluster) {
  return std::ranges::any_of(cluster.devices, [](const DeviceClass& device) {
    return device.ranks != kAuto || device.host == kAuto;
  });
}

Deck with_order(Deck deck, const std::vector<int>& order) {
  for (DeviceClass& device : deck.cluster->devices) {
    const std::vector<int64_t> before = parse_ranks(device.ranks).value();
    std::vector<int64_t> after;
    for (size_t number = 0; number < order.size(); ++number) {
      if (std::ranges::binary_search(before, order[number])) {
        after.push_back(static_cast<int64_t>(number));
      }
    }
    device.ranks = print_ranks(after);
  }
  return deck;
}

}  // namespace hidup
