// The section train of the decks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hidup {

// The group train.checkpoint: the times, place and kind of checkpoints.
struct CheckpointDeck {
  int64_t every_steps = 0;        // 0: off
  std::optional<double> every_s;  // none: no checkpoints by time; key train.checkpoint.every
  int64_t keep = 0;               // 0: all
  std::string folder;             // absolute; empty: beside the timing file
  std::string blocking;           // on, off
  std::string on_error;           // warn, stop
};

struct TrainDeck {
  int64_t batch = 0;  // sequences per step, all ranks together
  int64_t steps = 0;
  std::optional<int64_t> microbatches;  // of a group; none: auto, the strategy's
  std::optional<int64_t> accumulate;    // groups; none: auto, the strategy's
  std::string pipeline;                 // a schedule's name, or a CSV file; empty: auto
  std::string recompute;                // none, cheap, block
  std::string adapt;                    // off, shares
  uint64_t seed = 0;
  double lr = 0.0;
  std::string schedule;
  int64_t warmup_steps = 0;
  double min_lr_ratio = 0.0;
  std::string optimizer;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double epsilon = 0.0;
  double weight_decay = 0.0;
  // Patterns (core/text.h) of parameters without weight decay; none: auto, as the graph says.
  std::optional<std::vector<std::string>> no_decay;
  double clip_norm = 0.0;      // 0: off
  int64_t bucket_bytes = 0;    // key train.bucket
  std::string gradients;       // f32, bf16, model
  int64_t timeline_every = 0;  // 0: steps 1 to 3 only
  std::string overlap;         // on, off
  int64_t validate_every = 0;  // steps; 0: never
  std::string on_nan;          // stop, skip
  CheckpointDeck checkpoint;
};

}  // namespace hidup
