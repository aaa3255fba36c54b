#include "schedule/modulo.h"

#include <algorithm>

namespace hidup::pipeline {

std::vector<Rule::Device> modulo_turns(const Pipeline& pipeline, const std::vector<int>& hops) {
  const int chunks = pipeline.chunks();
  const int64_t period = 3 * chunks / pipeline.devices;
  std::vector<std::vector<char>> taken(at(pipeline.devices), std::vector<char>(at(period), 0));
  std::vector<Rule::Device> devices(at(pipeline.devices));
  int64_t start = 0;
  for (int step = 0; step < 2 * chunks; ++step) {
    const bool forward = step < chunks;
    const int chunk = forward ? step : 2 * chunks - 1 - step;
    const int device = pipeline.device(chunk);
    if (step > 0) {
      const bool turns_around = step % pipeline.devices == 0;
      start += turns_around ? 1 : hops[at(step / pipeline.devices) % hops.size()];
    }
    while (taken[at(device)][at(start % period)] != 0) {
      ++start;
    }
    taken[at(device)][at(start % period)] = 1;
    Rule::Device& turns = devices[at(device)];
    for (int microbatch = 0; microbatch < pipeline.microbatches; ++microbatch) {
      const Task task{chunk, microbatch, forward ? Pass::forward : Pass::backward};
      (forward ? turns.forward : turns.backward).push_back({task, start + microbatch * period});
    }
  }
  for (Rule::Device& turns : devices) {
    std::ranges::stable_sort(turns.forward, {}, &Turn::turn);
    std::ranges::stable_sort(turns.backward, {}, &Turn::turn);
  }
  return devices;
}

}  // namespace hidup::pipeline
