// Parameters and optimizer state in host memory, on their way from one program to another of the
// same graph on the same ranks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/region.h"
#include "runtime/executor.h"
#include "train/persistent.h"

namespace hidup {

class HeldState {
 public:
  // Copies this rank's part. No step may be under way.
  HeldState(Executor& executor, const Communicator& world);

  // Collective. Gives every rank its part of the values under the executor's program. Ranks get
  // what they lack from others, through pieces of bounded size. Throws CollectiveError(internal)
  // where the programs keep other values.
  void give(Communicator& world, Executor& executor) const;

 private:
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<Region>> boxes_;      // [rank][tensor]
  std::vector<std::vector<std::byte>> values_;  // this rank's part of each tensor
};

}  // namespace hidup
