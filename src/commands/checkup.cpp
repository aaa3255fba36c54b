#include "commands/checkup.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/text.h"

namespace hidup {
namespace {

std::vector<int> numbers_of(const std::string& version) {
  std::vector<int> numbers;
  std::istringstream text(version);
  for (std::string part; std::getline(text, part, '.');) {
    numbers.push_back(std::atoi(part.c_str()));
  }
  return numbers;
}

// Collects findings. Those with the same text become one, of several ranks.
class Findings {
 public:
  explicit Findings(const std::vector<RankPlace>& places) : places_(places) {}

  void add(std::string text, const std::vector<int>& ranks) {
    const auto found =
        std::ranges::find_if(all_, [&](const auto& one) { return one.first == text; });
    if (found == all_.end()) {
      all_.emplace_back(std::move(text), ranks);
    } else {
      found->second.insert(found->second.end(), ranks.begin(), ranks.end());
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [text, ranks] : all_) {
      lines.push_back(ranks.empty() ? text : fmt::format("{}: {}", who(ranks), text));
    }
    return lines;
  }

 private:
  std::string who(const std::vector<int>& ranks) const {
    std::set<std::string> hosts;
    for (const int rank : ranks) {
      hosts.insert(places_[static_cast<size_t>(rank)].host);
    }
    const std::string where =
        hosts.size() == 1 ? *hosts.begin() : fmt::format("{} hosts", hosts.size());
    return fmt::format("{} ({})", format_ranks(ranks), where);
  }

  const std::vector<RankPlace>& places_;
  std::vector<std::pair<std::string, std::vector<int>>> all_;
};

void check_threads(const RankPlace& place, int rank, Findings& findings) {
  const auto cores = static_cast<int>(place.cores.size());
  if (place.threads > cores) {
    findings.add(fmt::format("computes with {} threads on {} core(s): lower OMP_NUM_THREADS or "
                             "cluster.device.threads",
                             place.threads, cores),
                 {rank});
  } else if (place.threads > place.physical_cores) {
    findings.add(fmt::format("computes with {} threads on {} core(s), which SMT makes look like "
                             "{}: one thread per core is usually faster",
                             place.threads, place.physical_cores, cores),
                 {rank});
  }
}

// Compares the rank's program with that of rank 0, and if that is a build for another kind of
// device, its libraries with those of the first rank of its kind.
void check_program(const std::vector<RankPlace>& places, int rank, Findings& findings) {
  const RankPlace& place = places[static_cast<size_t>(rank)];
  if (place.common != places[0].common) {
    findings.add(fmt::format("runs {}, but rank 0 runs {}", place.common, places[0].common),
                 {rank});
  }
  const auto first = std::ranges::find(places, place.kind, &RankPlace::kind);
  if (place.libraries != first->libraries) {
    findings.add(fmt::format("loads {}, but rank {} loads {}", place.libraries,
                             first - places.begin(), first->libraries),
                 {rank});
  }
}

void check_sharing(const std::vector<RankPlace>& places, Findings& findings) {
  std::map<std::tuple<std::string, std::vector<int>>, std::vector<int>> by_cores;
  std::map<std::tuple<std::string, std::string>, std::vector<int>> by_device;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    by_cores[{place.host, place.cores}].push_back(static_cast<int>(rank));
    if (place.kind == "cuda" && !place.device.empty()) {
      by_device[{place.host, place.device}].push_back(static_cast<int>(rank));
    }
  }
  for (const auto& [key, ranks] : by_cores) {
    const size_t cores = std::get<1>(key).size();
    size_t threads = 0;
    for (const int rank : ranks) {
      threads += static_cast<size_t>(places[static_cast<size_t>(rank)].threads);
    }
    if (ranks.size() > 1 && threads > cores) {
      findings.add(fmt::format("compute with {} threads in all on the {} core(s) that they share",
                               threads, cores),
                   ranks);
    }
  }
  for (const auto& [key, ranks] : by_device) {
    if (ranks.size() > 1) {
      findings.add(fmt::format("share one GPU, {}: its memory is divided among them, and they take "
                               "turns on it",
                               std::get<1>(key)),
                   ranks);
    }
  }
}

}  // namespace

int count_physical_cores(const std::vector<int>& cores) {
  std::set<std::pair<int, int>> found;
  for (const int core : cores) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", core);
    std::pair<int, int> place;
    if (!(std::ifstream(folder + "physical_package_id") >> place.first) ||
        !(std::ifstream(folder + "core_id") >> place.second)) {
      return static_cast<int>(cores.size());
    }
    found.insert(place);
  }
  return static_cast<int>(found.size());
}

std::vector<std::string> what_looks_wrong(const std::vector<RankPlace>& places,
                                          const std::vector<LibraryVersion>& libraries) {
  Findings findings(places);
  for (const LibraryVersion& library : libraries) {
    if (!library.loaded.empty() && numbers_of(library.loaded) < numbers_of(library.compiled)) {
      findings.add(fmt::format("{} {} is loaded, older than the {} that the program was compiled "
                               "against",
                               library.name, library.loaded, library.compiled),
                   {});
    }
  }
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    const auto number = static_cast<int>(rank);
    if (!place.device_obstacle.empty()) {
      findings.add(place.device_obstacle, {number});
    }
    check_program(places, number, findings);
    check_threads(place, number, findings);
  }
  check_sharing(places, findings);
  return findings.lines();
}

}  // namespace hidup
