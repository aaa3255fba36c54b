// Findings of hidup doctor about the places in which a job runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/version.h"

namespace hidup {

// The place of one rank.
struct RankPlace {
  std::string host;
  std::string device;           // Device::description(); empty without a device
  std::string device_obstacle;  // reason for having no device
  int64_t memory = 0;           // bytes that the rank may use
  std::vector<int> cores;       // hardware threads that it may use, ascending
  int physical_cores = 0;       // number of cores with these threads
  int threads = 0;              // threads with which it computes
  std::string kind;             // of the device that the program was built for: cpu, cuda
  std::string common;     // version, commit and loaded libraries that builds of all kinds have
  std::string libraries;  // other loaded libraries

  bool operator==(const RankPlace&) const = default;
};

// Returns a line per finding, which begins with its ranks: "ranks 0-3 (node1): ...". Returns
// nothing if all looks right. `places`: by rank. `libraries`: those of rank 0.
std::vector<std::string> what_looks_wrong(const std::vector<RankPlace>& places,
                                          const std::vector<LibraryVersion>& libraries);

// Returns the number of distinct cores with these hardware threads according to Linux, or the
// number of threads if Linux does not tell.
int count_physical_cores(const std::vector<int>& cores);

}  // namespace hidup
