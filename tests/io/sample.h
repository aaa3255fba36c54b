// An invented run: every value follows from the step and the rank, so that a reader can check it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "io/timing_file.h"

namespace hidup::sample {

inline constexpr int64_t kRanks = 3;
inline constexpr ExpertLayers kExperts = {
    .layers = 2, .experts = 5, .balance_loss = true, .z_loss = true};

inline TimingHeader header() {
  TimingHeader header;
  header.run = {.program_version = "0.1.0",
                .git_commit = "0123456789abcdef0123456789abcdef01234567",
                .git_dirty = true,
                .command_line = "hidup train tiny.yaml --cluster laptop.yaml",
                .started_at = "2026-01-31T23:59:59Z",
                .model = "tiny",
                .world_size = kRanks,
                .device = "cpu",
                .hostnames = {"node-0", "node-0", "node-1"},
                .libraries = {"HDF5 1.10.8", "Open MPI 4.1.4"},
                .environment = {},
                .unigram_entropy = 3.2};
  header.inputs = {.model_deck = "model:\n  layers: 2  # größer\n",
                   .cluster_deck = "cluster: {}\n",
                   .resolved = "model:\n  layers: 2\n"};
  header.strategy = {.name = "dp", .hash = "89abcdef01234567", .text = "format_version: 1\n"};
  header.program.text = "0 embed\n1 all_reduce embed.grad\n";
  header.program.rows = {
      {"embed", "compute", "compute", 0, "forward", "", "", 4096, 512},
      {"embed.grad", "collective", "comm", -1, "backward", "all_reduce", "ring", 0, 1024}};
  header.memory = {.peak_bytes = {300, 301, 302}, .parameter_bytes = {100, 101, 102}};
  header.experts = kExperts;
  header.validation = true;
  header.causes = {"products", "messages"};
  return header;
}

inline Iteration iteration(int64_t step) {
  const auto at = static_cast<double>(step);
  return {.step = step,
          .wall_s = 0.03 + 0.001 * std::sin(at),
          .loss = 2.0 + 2.0 / (1.0 + 0.01 * at),
          .accuracy = 0.5,
          .tokens = 512,
          .lr = 1e-3 / at,
          .grad_norm = 1.0 + 1.0 / at,
          .skipped = step % 7 == 0,
          .balance_loss = 1.0 + 1.0 / at,
          .z_loss = 3.0 / at};
}

// Returns one of the three arrays of all ranks' times; `which` selects it.
inline std::vector<double> spans(int64_t step, int which) {
  std::vector<double> values;
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    values.push_back(0.01 * (which + 1) + 0.001 * static_cast<double>(rank) +
                     0.0001 * static_cast<double>(step % 10));
  }
  return values;
}

// Returns the loads of all experts of all layers, beginning at `first`.
inline std::vector<int64_t> loads(int64_t step, int64_t first) {
  std::vector<int64_t> values;
  for (int64_t expert = 0; expert < kExperts.layers * kExperts.experts; ++expert) {
    values.push_back(first + 10 * step + expert);
  }
  return values;
}

inline double validation_loss(int64_t step) {
  return 2.5 + 1.0 / static_cast<double>(step);
}

// Appends a step, and a validation to every 50th.
inline void append(TimingFile& file, int64_t step) {
  file.append_iteration(iteration(step), {spans(step, 0), spans(step, 1), spans(step, 2)},
                        {.tokens = loads(step, 1000), .dropped = loads(step, 0)});
  if (step % 50 == 0) {
    file.append_validation({.step = step, .loss = validation_loss(step)});
  }
}

}  // namespace hidup::sample
