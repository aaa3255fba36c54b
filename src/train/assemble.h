// Values in global shape, assembled from the parts of all ranks.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "io/timing_file.h"
#include "program/program.h"

namespace hidup {

// Collective. Returns the whole value (f32, global shape, row-major) on rank 0, from every rank's
// part, and an empty vector on the other ranks. Does not add partial sums.
std::vector<float> assemble(Communicator& world, const Program& program, ValueId value,
                            const std::vector<float>& mine);

// A router's unweighted losses in a step, from its sums over the whole batch, f32 [3, experts]
// (kernels/router_losses.h).
struct RouterLosses {
  double balance = 0.0;
  double z = 0.0;
};
RouterLosses router_losses(std::span<const float> sums, const RouterLossAttributes& attributes);

// Returns the timing file's description of the program's experts.
ExpertLayers expert_layers(const Program& program);

}  // namespace hidup
