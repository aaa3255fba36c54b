#include "requests.h"

#include <algorithm>

namespace cuda_shim {
namespace {

constexpr uintptr_t kSectorBytes = 32;
constexpr uintptr_t kWordBytes = 4;
constexpr size_t kBanks = 32;
constexpr size_t kLanes = 32;

// The distinct addresses of the lanes from `first` on that take part, in order.
struct Distinct {
  std::array<uintptr_t, kLanes> addresses;
  size_t count = 0;

  Distinct(const LaneAddresses& all, size_t first, size_t lanes) {
    bool sorted = true;
    for (size_t lane = first; lane < first + lanes; ++lane) {
      if (all[lane] != 0 && (count == 0 || all[lane] != addresses[count - 1])) {
        sorted = sorted && (count == 0 || all[lane] > addresses[count - 1]);
        addresses[count++] = all[lane];
      }
    }
    if (!sorted) {
      const auto begin = addresses.begin();
      const auto end = begin + static_cast<std::ptrdiff_t>(count);
      std::sort(begin, end);
      count = static_cast<size_t>(std::unique(begin, end) - begin);
    }
  }
};

// Returns the most words in one bank that the lanes of a part of a warp access at once.
int64_t most_in_a_bank(const Distinct& accesses, uintptr_t bytes) {
  std::array<int64_t, kBanks> words{};
  uintptr_t last = 0;
  for (size_t i = 0; i < accesses.count; ++i) {
    const uintptr_t begin = accesses.addresses[i] / kWordBytes;
    const uintptr_t end = (accesses.addresses[i] + bytes + kWordBytes - 1) / kWordBytes;
    for (uintptr_t word = begin; word < end; ++word) {
      words[word % kBanks] += word == last ? 0 : 1;
      last = word;
    }
  }
  return *std::ranges::max_element(words);
}

}  // namespace

void count_global(const LaneAddresses& addresses, int bytes, GlobalCounts& counts) {
  const Distinct accesses(addresses, 0, kLanes);
  uintptr_t last = 0;
  for (size_t i = 0; i < accesses.count; ++i) {
    const uintptr_t sector = accesses.addresses[i] / kSectorBytes;
    counts.sectors += sector == last ? 0 : 1;
    last = sector;
  }
  const auto filled = static_cast<int64_t>(accesses.count) * bytes;
  counts.least_sectors += (filled + 31) / 32;
  counts.bytes += bytes * (static_cast<int64_t>(kLanes) - std::ranges::count(addresses, 0U));
  ++counts.requests;
}

void count_shared(const LaneAddresses& addresses, int bytes, SharedCounts& counts) {
  const size_t at_once = bytes <= 4 ? kLanes : kLanes * kWordBytes / static_cast<size_t>(bytes);
  for (size_t first = 0; first < kLanes; first += at_once) {
    const Distinct accesses(addresses, first, at_once);
    if (accesses.count > 0) {
      counts.wavefronts += most_in_a_bank(accesses, static_cast<uintptr_t>(bytes));
      ++counts.least_wavefronts;
    }
  }
  ++counts.requests;
}

void Requests::add(const Site& site, int thread, uintptr_t address) {
  const auto warp = static_cast<size_t>(thread) / kLanes;
  const auto lane = static_cast<size_t>(thread) % kLanes;
  Pending& pending = at(site)[warp];
  const size_t request = pending.count[lane]++;
  if (request == 0 && pending.requests.empty()) {
    touched_[warp].push_back(&pending);
  }
  if (request == pending.requests.size()) {
    pending.requests.push_back({});
  }
  pending.requests[request][lane] = address;
}

size_t Requests::Hash::operator()(const Site& site) const {
  const uintptr_t key = site.instruction * 8 + static_cast<uintptr_t>(site.kind) * 2 +
                        static_cast<uintptr_t>(site.space);
  return (key + (static_cast<uintptr_t>(site.part) << 48)) * 0x9E3779B97F4A7C15U >> 32;
}

Requests::OfWarps& Requests::at(const Site& site) {
  auto& [known, of_warps] = recent_[Hash()(site) % recent_.size()];
  if (of_warps == nullptr || known != site) {
    known = site;
    of_warps = &sites_.try_emplace(site, OfWarps(touched_.size(), Pending{site})).first->second;
  }
  return *of_warps;
}

}  // namespace cuda_shim
