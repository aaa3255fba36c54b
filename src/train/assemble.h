// What ranks hold in parts, put together.
#pragma once

#include <span>
#include <vector>

#include "comm/communicator.h"
#include "io/timing_file.h"
#include "program/program.h"

namespace hidup {

// Collective: the whole of a value (f32, global shape, row-major) on rank 0, from every rank's
// part; empty on the others. Partial sums are not added.
std::vector<float> assemble(Communicator& world, const Program& program, ValueId value,
                            const std::vector<float>& mine);

// A router's own losses in a step, without their weights: of its sums over the whole batch, f32
// [3, experts] (kernels/router_losses.h).
struct RouterLosses {
  double balance = 0.0;
  double z = 0.0;
};
RouterLosses router_losses(std::span<const float> sums, const RouterLossAttributes& attributes);

// What the timing file says about the program's experts.
ExpertLayers expert_layers(const Program& program);

}  // namespace hidup
