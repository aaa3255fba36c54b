#include "deck/train_keys.h"

#include "core/limits.h"
#include "deck/train_deck.h"

namespace hidup {
namespace {

constexpr double kKiB = 1024.0;
constexpr double kTiB = 1024.0 * 1024.0 * 1024.0 * kKiB;

// A slower decay vanishes in single precision.
constexpr double kSlowestDecay = 0.999999;

}  // namespace

std::vector<Key> train_keys() {
  return {
      {.name = "train.batch",
       .doc = "Sequences per step, all ranks together.",
       .range = {1, 1e9},
       .per_rank = true,
       .slot = [](Deck& d, Item) -> Slot { return &d.train->batch; }},
      {.name = "train.steps",
       .doc = "Number of optimizer steps.",
       .range = {1, 1e12},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->steps; }},
      {.name = "train.microbatches",
       .doc = "Parts of the batch: one computes while another communicates, and gradients are "
              "those of the whole batch. At most `train.batch`. Few are enough: two can hide "
              "each other's messages, and the time to plan a step grows with their number. "
              "auto: as the strategy says.",
       .fallback = "auto",
       .range = {1, kMaxMicrobatches},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->microbatches; }},
      {.name = "train.accumulate",
       .doc = "Groups of microbatches. A group does its forward and its backward pass before "
              "the next one begins, so activations take the memory of one group. Gradients add "
              "up over the groups, and are sent and applied once a step. `train.batch` must "
              "have a sequence for each microbatch of each group. Routers with losses of their "
              "own allow one group only, because their losses are those of the whole batch. "
              "auto: as the strategy says; the search uses groups where memory is short.",
       .fallback = "auto",
       .range = {1, kMaxMicrobatches},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->accumulate; }},
      {.name = "train.pipeline",
       .doc = "The order in which the stages of a pipeline work: the name of a schedule (`hidup "
              "schedule --help`), or a CSV file with a row per stage and a cell per task, such as "
              "1F0. The microbatches of a schedule are the groups of `train.accumulate`. auto: as "
              "the strategy says; the strategy pipeline takes 1f1b. Relative paths start as those "
              "of `data.path`.",
       .fallback = "auto",
       .choices = {"gpipe", "1f1b", "interleaved", "kfkb", "dapple", "zb-h1", "zb-h2", "zb-v",
                   "v-half", "v-min", "dualpipe-v", "auto"},
       .path_of = "file",
       .slot = [](Deck& d, Item) -> Slot { return &d.train->pipeline; }},
      {.name = "train.recompute",
       .doc = "Activations that the backward pass recomputes, so that they take no memory in "
              "between. A strategy file has its own choice, and a search may recompute more "
              "where memory is short. cheap: norms, biases, activation functions and dropout. "
              "block: all activations of a block that no other block reads; a block is a run of "
              "operations whose names are equal up to their first number, such as layers.3. "
              "Losses stay equal to the bit, except in fp32 on GPUs, where cuBLASLt's fused "
              "GELU differs from the separate one. In 16 bits, cheap does not recompute a GELU "
              "behind a product's bias.",
       .fallback = "none",
       .choices = {"none", "cheap", "block"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->recompute; }},
      {.name = "train.adapt",
       .doc = "What a run changes while it trains. shares: where a rank computes more slowly than "
              "its class, by 10 % over 50 steps, or no longer does so, the run plans new shares of "
              "the work, applies them between two steps, and measures five steps. It undoes the "
              "change where these are slower, by over 1 % and over twice the spread of the steps "
              "before, and then waits ten times as long. Losses stay equal up to rounding. The "
              "strategy's rules stay; a pipeline's shares do, too. Times come from "
              "`cluster.profile` or from rates, as those of a search.",
       .fallback = "off",
       .choices = {"off", "shares"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->adapt; }},
      {.name = "train.seed",
       .doc = "Seed of the initial parameters, of dropout and of the order of the data, on any "
              "number of ranks.",
       .fallback = "1",
       .slot = [](Deck& d, Item) -> Slot { return &d.train->seed; }},
      {.name = "train.lr",
       .doc = "Learning rate after the warmup.",
       .fallback = "1e-3",
       .range = {kLeastFactor, 1000},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->lr; }},
      {.name = "train.schedule",
       .doc = "The course of the learning rate from the end of the warmup to the last step.",
       .fallback = "constant",
       .choices = {"constant", "linear", "cosine"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->schedule; }},
      {.name = "train.warmup_steps",
       .doc = "Steps in which the learning rate rises linearly to `train.lr`; at most "
              "`train.steps`.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->warmup_steps; }},
      {.name = "train.min_lr_ratio",
       .doc = "Learning rate at the end of the schedules linear and cosine, over `train.lr`.",
       .fallback = "0",
       .range = {0, 1},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->min_lr_ratio; }},
      {.name = "train.optimizer",
       .doc = "adam, or adamw, which decays weights apart from the gradient.",
       .fallback = "adam",
       .choices = {"adam", "adamw"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->optimizer; }},
      {.name = "train.beta1",
       .doc = "Decay of the mean of the gradients.",
       .fallback = "0.9",
       .range = {0, kSlowestDecay},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->beta1; }},
      {.name = "train.beta2",
       .doc = "Decay of the mean of the squared gradients.",
       .fallback = "0.999",
       .range = {0, kSlowestDecay},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->beta2; }},
      {.name = "train.epsilon",
       .doc = "Added to the root of the mean squared gradient before dividing by it.",
       .fallback = "1e-8",
       .range = {kLeastFactor, 1},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->epsilon; }},
      {.name = "train.weight_decay",
       .doc = "Weight decay. adam adds it times the parameter to the gradient; adamw shrinks "
              "the parameter by it times the learning rate. 0: off.",
       .fallback = "0",
       .range = {0, 1000},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->weight_decay; }},
      {.name = "train.no_decay",
       .doc =
           "Parameters without weight decay, by their names: patterns in which * stands for any "
           "text and ? for any character, such as [\"*.bias\", \"*norm*\"]. [] has none of them. "
           "auto: biases and the weights of norms, or those that a graph file says.",
       .fallback = "auto",
       .slot = [](Deck& d, Item) -> Slot { return &d.train->no_decay; }},
      {.name = "train.clip_norm",
       .doc = "Gradients whose norm over all parameters is larger are multiplied by clip_norm / "
              "(norm + 1e-6), as PyTorch does. 0: off.",
       .fallback = "0",
       .range = {.min = 1e-10, .max = 1e18, .or_zero = true},  // its square is a float, too
       .slot = [](Deck& d, Item) -> Slot { return &d.train->clip_norm; }},
      {.name = "train.bucket",
       .doc =
           "Gradients are reduced over the ranks in buckets of about this size. NCCL over NVLink "
           "comes near its bandwidth with messages of 25 to 32 MiB, so larger ones than the "
           "default are advised there.",
       .fallback = "4MiB",
       .range = {kKiB, kTiB},
       .unit = Unit::bytes,
       .slot = [](Deck& d, Item) -> Slot { return &d.train->bucket_bytes; }},
      {.name = "train.gradients",
       .doc =
           "The type in which gradients are sent where they are summed over ranks; each rank adds "
           "in f32. bf16 halves their bytes. model: as `model.precision`. In 16 bits every summand "
           "that is sent is rounded once for each axis of the sum, by at most 2^-8 of it in bf16 "
           "and 2^-11 in fp16, and the sum of an all-reduce once more; a rank does not round its "
           "own summand. So losses differ from those of one rank: in bf16 by up to 7e-5 of them, "
           "measured over 20 steps of small models on up to 4 ranks, and gradients of step 1 by "
           "up to 7e-3 of a tensor's largest, where f32 differs by 2e-7 and 5e-7. Runs on the "
           "same ranks by the same strategy stay equal to the bit, and so do replicas.",
       .fallback = "f32",
       .choices = {"f32", "bf16", "model"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->gradients; }},
      {.name = "train.overlap",
       .doc = "on: communication runs beside computation. off: one instruction after the other, "
              "so that the timing file has the times of both alone; the results are the same.",
       .fallback = "on",
       .choices = {"on", "off"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->overlap; }},
      {.name = "train.timeline_every",
       .doc = "The timing file keeps the timeline of steps 1 to 3 and of every step that this "
              "divides. 0: of steps 1 to 3 only.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->timeline_every; }},
      {.name = "train.validate_every",
       .doc = "The validation loss is measured after every step that this divides, and after "
              "the last; needs `data.validation`. 0: after the last only.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->validate_every; }},
      {.name = "train.on_nan",
       .doc = "What happens when the loss, the gradients or the validation loss are not finite. "
              "stop: the step is repeated instruction by instruction; the error names the step, "
              "the rank and the first operation whose output is not finite, and the exit code "
              "is 9. skip: the step changes no parameter, and training goes on.",
       .fallback = "stop",
       .choices = {"stop", "skip"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->on_nan; }},
  };
}

std::vector<Key> checkpoint_keys() {
  return {
      {.name = "train.checkpoint.every_steps",
       .doc = "A checkpoint is written after every step that this divides. 0: not by steps.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->checkpoint.every_steps; }},
      {.name = "train.checkpoint.every",
       .doc = "A checkpoint is written after the first step that ends this long after the last "
              "one. none: not by time.",
       .fallback = "none",
       .choices = {"none"},
       .range = {0.1, 1000 * kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, Item) -> Slot { return &d.train->checkpoint.every_s; }},
      {.name = "train.checkpoint.keep",
       .doc = "Number of checkpoints that stay; older ones are removed. 0: all stay.",
       .fallback = "3",
       .range = {0, 1e6},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->checkpoint.keep; }},
      {.name = "train.checkpoint.folder",
       .doc = "Folder of the checkpoints. auto: the timing file's name with .ckpt instead of "
              ".h5. One run at a time may write there. Relative paths start as those of "
              "`data.path`.",
       .fallback = "auto",
       .choices = {"auto"},
       .path_of = "folder",
       .slot = [](Deck& d, Item) -> Slot { return &d.train->checkpoint.folder; }},
      {.name = "train.checkpoint.blocking",
       .doc = "on: training waits until a checkpoint is written. off: training goes on "
              "meanwhile, and the host holds a copy of the state until it is written.",
       .fallback = "off",
       .choices = {"on", "off"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->checkpoint.blocking; }},
      {.name = "train.checkpoint.on_error",
       .doc = "What happens when a checkpoint cannot be written; the one before it stays in any "
              "case. warn: training goes on with a warning. stop: the run ends with exit code "
              "6.",
       .fallback = "warn",
       .choices = {"warn", "stop"},
       .slot = [](Deck& d, Item) -> Slot { return &d.train->checkpoint.on_error; }},
  };
}

}  // namespace hidup
