#include "train/assemble.h"

#include <algorithm>
#include <span>

namespace hidup {

std::vector<float> assemble(Communicator& world, const Program& program, ValueId value,
                            const std::vector<float>& mine) {
  const Value& tensor = program.value(value);
  const std::vector<std::vector<std::byte>> all = world.gather(std::as_bytes(std::span(mine)));
  std::vector<float> whole(all.empty() ? 0 : static_cast<size_t>(elements(tensor.shape)));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Region part = program.region(value, static_cast<int64_t>(rank));
    const int64_t run = part.contiguous_run();
    const auto* values = reinterpret_cast<const float*>(all[rank].data());
    for (int64_t first = 0; first < part.elements(); first += run) {
      std::copy_n(values + first, run, whole.begin() + part.global_index(first));
    }
  }
  return whole;
}

RouterLosses router_losses(std::span<const float> sums, const RouterLossAttributes& attributes) {
  const size_t experts = sums.size() / 3;
  const auto tokens = static_cast<double>(attributes.tokens);
  RouterLosses losses;
  for (size_t e = 0; e < experts; ++e) {
    const double share =
        static_cast<double>(sums[experts + e]) / (tokens * static_cast<double>(attributes.counted));
    losses.balance += attributes.factor * share * static_cast<double>(sums[e]) / tokens;
    losses.z += static_cast<double>(sums[2 * experts + e]) / tokens;
  }
  return losses;
}

ExpertLayers expert_layers(const Program& program) {
  ExpertLayers layers{.layers = static_cast<int64_t>(program.expert_loads.size())};
  for (const ValueId load : program.expert_loads) {
    layers.experts = std::max(layers.experts, program.value(load).shape[1]);
  }
  for (const RouterSums& sums : program.router_sums) {
    layers.balance_loss |= sums.losses.balance > 0.0;
    layers.z_loss |= sums.losses.z > 0.0;
  }
  return layers;
}

}  // namespace hidup
