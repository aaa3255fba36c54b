// What hidup doctor finds wrong with where a job runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/version.h"

namespace hidup {

// Where one rank is.
struct RankPlace {
  std::string host;
  std::string device;           // Device::description(); empty where there is none
  std::string device_obstacle;  // why there is none
  int64_t memory = 0;           // bytes that the rank may use
  std::vector<int> cores;       // hardware threads that it may run on, ascending
  int physical_cores = 0;       // that these belong to
  int threads = 0;              // it computes with
  std::string program;          // its version, commit and loaded libraries

  bool operator==(const RankPlace&) const = default;
};

// A line per finding, the ranks that it is about first: "ranks 0-3 (node1): ...". Empty where all
// looks right. `places`: by rank. `gpus`: devices are meant for one rank each.
std::vector<std::string> what_looks_wrong(const std::vector<RankPlace>& places,
                                          const std::vector<LibraryVersion>& libraries, bool gpus);

// Ascending numbers, "0-3, 5".
std::string format_numbers(const std::vector<int>& numbers);

// The distinct cores that these hardware threads belong to, as Linux has it; their number where it
// does not tell.
int count_physical_cores(const std::vector<int>& cores);

}  // namespace hidup
