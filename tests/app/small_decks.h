// A small model and cluster in files, for tests of commands.
#pragma once

#include <string>
#include <vector>

#include "app/planning.h"
#include "temporary_folder.h"

namespace hidup {

// Two layers, 8 sequences of synthetic tokens, and four ranks with all rates but without a profile.
struct SmallDecks {
  TemporaryFolder folder;
  std::string model = folder.write("model.yaml",
                                   "model:\n"
                                   "  {layers: 2, hidden: 32, ffn: 64, heads: 2, sequence: 8,\n"
                                   "   vocab: 50}\n"
                                   "data: {kind: synthetic}\n"
                                   "train: {batch: 8, steps: 2}\n");
  std::string cluster =
      folder.write("cluster.yaml",
                   "cluster:\n"
                   "  device: {memory: 1GiB, flops: 100GFLOPS}\n"
                   "  mesh:\n"
                   "    - {name: ranks, size: 4, bandwidth: 1GB/s, latency: 5us}\n"
                   "  profile: none\n");

  PlanningInput read(const std::vector<std::string>& overrides = {},
                     std::optional<int64_t> ranks = std::nullopt) const {
    return read_planning_input(model, cluster, overrides, ranks);
  }
};

// Returns the exit code and the message of the Error that `work` throws; fails where there is none.
template <typename Work>
std::pair<ExitCode, std::string> error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "nothing is thrown";
  return {ExitCode::done, ""};
}

}  // namespace hidup
