#include "app/rank_order.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "core/text.h"

namespace hidup {
namespace {

// The first rank that each rank shares a level with, by level. Levels: class of devices,
// switches from the top down, host. Ranks that share a level share those before it.
using Levels = std::vector<std::vector<int>>;

// Returns the names of the site's levels.
std::vector<std::string> names_of(const RankSite& site) {
  std::vector<std::string> names = {fmt::format("{}", site.device)};
  std::vector<std::string_view> switches = split(site.switches, '.');
  switches.pop_back();  // the host
  names.insert(names.end(), switches.begin(), switches.end());
  return names;
}

Levels levels_of(const std::vector<RankSite>& sites) {
  std::vector<std::vector<std::string>> names;
  size_t depth = 0;
  for (const RankSite& site : sites) {
    names.push_back(names_of(site));
    depth = std::max(depth, names.back().size());
  }
  Levels levels;
  std::map<std::vector<std::string>, int> first;
  for (size_t rank = 0; rank < sites.size(); ++rank) {
    names[rank].resize(depth);
    names[rank].push_back(sites[rank].host);
    std::vector<std::string> shared;
    std::vector<int>& own = levels.emplace_back();
    for (std::string& name : names[rank]) {
      shared.push_back(std::move(name));
      own.push_back(first.try_emplace(shared, static_cast<int>(rank)).first->second);
    }
  }
  return levels;
}

// Returns the numbers along the mesh, with neighbours on the fastest axis next to each other.
std::vector<int> numbers_along(const Mesh& mesh) {
  std::vector<int> numbers(static_cast<size_t>(ranks_of(mesh)));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::ranges::sort(numbers, {}, [&](int number) { return coordinates_of(mesh, number); });
  return numbers;
}

// Counts, of every axis from the fastest on and of every level from the host up, the neighbours
// that differ, in rings along the axis.
std::vector<int64_t> crossings(const Levels& levels, const std::vector<int>& order,
                               const Mesh& mesh) {
  const size_t depth = levels[0].size();
  std::vector<int64_t> counts;
  for (size_t axis = mesh.size(); axis-- > 0;) {
    std::vector<int64_t> of_axis(depth, 0);
    for (size_t number = 0; number < order.size(); ++number) {
      const auto here = static_cast<int64_t>(number);
      const int64_t stride = stride_of(mesh, axis);
      const int64_t at = coordinate_of(mesh, here, axis);
      const int64_t next = at + 1 < mesh[axis].size ? here + stride : here - at * stride;
      const auto& own = levels[static_cast<size_t>(order[number])];
      const auto& other = levels[static_cast<size_t>(order[static_cast<size_t>(next)])];
      for (size_t level = 0; level < depth; ++level) {
        of_axis[depth - 1 - level] += own[level] != other[level] ? 1 : 0;
      }
    }
    counts.insert(counts.end(), of_axis.begin(), of_axis.end());
  }
  return counts;
}

}  // namespace

RankOrder order_of_ranks(const std::vector<RankSite>& sites, const Mesh& mesh) {
  const Levels levels = levels_of(sites);
  const size_t depth = levels[0].size();
  std::vector<int> given(sites.size());
  std::iota(given.begin(), given.end(), 0);
  std::vector<int> together = given;
  std::ranges::stable_sort(together, {}, [&](int rank) -> const std::vector<int>& {
    return levels[static_cast<size_t>(rank)];
  });
  std::vector<int> order(given.size());
  const std::vector<int> numbers = numbers_along(mesh);
  for (size_t i = 0; i < numbers.size(); ++i) {
    order[static_cast<size_t>(numbers[i])] = together[i];
  }
  const std::vector<int64_t> before = crossings(levels, given, mesh);
  const std::vector<int64_t> after = crossings(levels, order, mesh);
  if (!(after < before)) {
    return {std::move(given), ""};
  }
  const auto first = static_cast<size_t>(std::ranges::mismatch(before, after).in1 - before.begin());
  const char* what = first % depth == 0           ? "ranks of a host"
                     : first % depth == depth - 1 ? "devices of a class"
                                                  : "hosts of a switch";
  return {std::move(order), fmt::format("{} are neighbours along {}", what,
                                        mesh[mesh.size() - 1 - first / depth].name)};
}

std::string describe(const RankOrder& order) {
  constexpr size_t kShown = 64;
  const auto end =
      order.ranks.begin() + static_cast<std::ptrdiff_t>(std::min(order.ranks.size(), kShown));
  return fmt::format("cluster.order: {}: order {}{}", order.reason,
                     fmt::join(order.ranks.begin(), end, " "),
                     end == order.ranks.end() ? "" : " ...");
}

}  // namespace hidup
