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

ExpertLayers expert_layers(const Program& program) {
  ExpertLayers layers{.layers = static_cast<int64_t>(program.expert_loads.size())};
  for (const ValueId load : program.expert_loads) {
    layers.experts = std::max(layers.experts, program.value(load).shape[1]);
  }
  return layers;
}

}  // namespace hidup
