#include "deck/keys.h"

#include <algorithm>

#include "core/images.h"
#include "core/limits.h"
#include "deck/cluster_keys.h"

namespace hidup {
namespace {

constexpr double kKiB = 1024.0;
constexpr double kTiB = 1024.0 * 1024.0 * 1024.0 * kKiB;

// Token indices are 32-bit integers.
constexpr double kMaxVocab = 2147483647.0;

// What the optimizer computes in single precision: smaller numbers are 0 there, and a slower decay
// is none.
constexpr double kLeast = 1e-30;
constexpr double kSlowestDecay = 0.999999;

constexpr Condition kNoGraph = {"model.graph", [](const Deck& d) { return d.model.graph.empty(); },
                                "is given by the graph of model.graph: remove it"};
constexpr Condition kNoImages = {"data.kind", [](const Deck& d) { return d.data.kind != "images"; },
                                 "is fixed with data.kind images: remove it"};
constexpr Condition kHasExperts = {"model.moe.experts",
                                   [](const Deck& d) { return d.model.moe.experts > 0; },
                                   "is about experts, but model.moe.experts is missing or 0"};

constexpr Condition kHasBalanceLoss = {
    "model.moe.balance_loss", [](const Deck& d) { return d.model.moe.balance_loss > 0.0; },
    "says what the balance loss is, but model.moe.balance_loss is missing or 0"};

std::vector<Key> model_keys() {
  return {
      {.name = "model.family",
       .doc =
           "What is built. bert and gpt are language models: a token is predicted from those "
           "before "
           "it. bert: blocks as BERT's (layer norm behind each half, ReLU, sinusoidal positions). "
           "gpt: GPT-2 (layer norm before each half, GELU, learned positions, the head tied to "
           "the embedding). vit: the class of an image of `data.kind` images, by blocks as bert's "
           "but without the mask, from 64 patches of 4 x 4 pixels and a class token before them; "
           "learned positions.",
       .fallback = "bert",
       .choices = {"bert", "gpt", "vit"},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.family; }},
      {.name = "model.graph",
       .doc = "What is built, instead of a family: a file with the graph of one device as text. "
              "Family, layers, hidden, ffn, heads, dropout and experts are then the graph's and "
              "refused here; `model.sequence` and `train.batch` must be the graph's. Relative "
              "paths start as those of `data.path`.",
       .fallback = "none",
       .choices = {"none"},
       .path_of = "file",
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.graph; }},
      {.name = "model.layers",
       .doc = "Number of transformer blocks.",
       .range = {1, 10000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.layers; }},
      {.name = "model.hidden",
       .doc = "Width of the model: a multiple of `model.heads`, and even for the family bert.",
       .range = {2, 1000000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.hidden; }},
      {.name = "model.ffn",
       .doc = "Inner width of the feed-forward network of a block.",
       .fallback = "4 x model.hidden",
       .derived = [](const Deck& d) { return 4 * d.model.hidden; },
       .range = {1, 10000000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.ffn; }},
      {.name = "model.heads",
       .doc = "Attention heads of a block; each is `model.hidden` / `model.heads` wide.",
       .range = {1, 10000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.heads; }},
      {.name = "model.sequence",
       .doc = "Tokens of a sequence. Of images it is 65, the patches and the class token, and "
              "refused here.",
       .range = {1, 10000000},
       .conditions = {kNoImages},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.sequence; }},
      {.name = "model.vocab",
       .doc = "Number of different tokens. auto: as many as the data needs. Of images it is 10, "
              "their classes, and refused here.",
       .fallback = "auto",
       .range = {1, kMaxVocab},
       .conditions = {kNoImages},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.vocab; }},
      {.name = "model.dropout",
       .doc = "Probability that dropout zeroes an element.",
       .fallback = "0",
       .range = {.min = kMinDropout, .max = kMaxDropout, .or_zero = true},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.dropout; }},
      {.name = "model.precision",
       .doc =
           "Number format of parameters and activations, whatever a graph file says. bf16, fp16: "
           "16 bits; gradients of parameters, the optimizer's state with a master copy of the "
           "parameters, and all sums are in 32. fp16 scales the loss, from 65536 on: half of "
           "that after a step whose gradients overflow, which then changes nothing, and twice "
           "after 2000 steps without one.",
       .fallback = "fp32",
       .choices = {"fp32", "bf16", "fp16"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.precision; }},
  };
}

std::vector<Key> moe_keys() {
  return {
      {.name = "model.moe.experts",
       .doc = "Experts of a block that has them instead of its feed-forward network. 0: the model "
              "is dense.",
       .fallback = "0",
       .range = {0, 100000},
       .per_rank = true,
       .conditions = {kNoGraph},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.experts; }},
      {.name = "model.moe.every",
       .doc = "Every how many blocks one has experts: 2 is the second, the fourth and so on. At "
              "most `model.layers`.",
       .fallback = "2",
       .range = {1, 10000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.every; }},
      {.name = "model.moe.router",
       .doc = "Who chooses a token's experts. top1, top2, topk: a learned router, the one, two or "
              "`model.moe.top_k` experts that it rates highest. hash: one expert (or "
              "`model.moe.top_k` of them), at random for each place in the batch and the same in "
              "every step.",
       .fallback = "top2",
       .choices = {"top1", "top2", "topk", "hash"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.router; }},
      {.name = "model.moe.top_k",
       .doc = "Experts per token, at most `model.moe.experts`. The router topk needs a number. "
              "auto: 1 for top1 and hash, 2 for top2. First choices take slots before second ones, "
              "these before third ones and so on.",
       .fallback = "auto",
       .range = {1, 100000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.top_k; }},
      {.name = "model.moe.normalize",
       .doc = "With several experts per token. on: the weights with which they are mixed add up to "
              "1 (GShard). off: each is the router's probability of the expert, as it is where a "
              "token has one expert (Switch).",
       .fallback = "on",
       .choices = {"on", "off"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.normalize; }},
      {.name = "model.moe.capacity_factor",
       .doc = "Slots of an expert per sequence, over what an even choice of the experts needs, "
              "rounded up: ceil(capacity_factor x top_k x sequence / experts), at least 1, at most "
              "`model.sequence`. A choice that finds no slot is dropped.",
       .fallback = "1.25",
       .range = {.min = 0, .max = 1e6, .above_min = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.capacity_factor; }},
      {.name = "model.moe.balance_loss",
       .doc = "Weight with which the balance loss of every block with experts is minimised beside "
              "the loss: it is small where tokens are spread evenly. It is computed over the whole "
              "batch, reported without the weight, and no part of the loss. 0: none. Refused for "
              "the router hash.",
       .fallback = "0",
       .range = {.min = kLeast, .max = 1e6, .or_zero = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.balance_loss; }},
      {.name = "model.moe.balance",
       .doc = "What the balance loss is, with P the mean over all tokens of an expert's "
              "probability. switch: the sum over the experts of f x P, times their number, with f "
              "the expert's share of all choices before any is dropped. gshard: the mean over the "
              "experts of f x P, with f the expert's share of the first choices.",
       .fallback = "switch",
       .choices = {"switch", "gshard"},
       .conditions = {kNoGraph, kHasExperts, kHasBalanceLoss},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.balance; }},
      {.name = "model.moe.z_loss",
       .doc = "Weight with which the router's z loss is minimised beside the loss: the mean over "
              "all tokens of the square of log(sum(exp(logits))) (ST-MoE). Reported as the balance "
              "loss is. 0: none.",
       .fallback = "0",
       .range = {.min = kLeast, .max = 1e6, .or_zero = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.z_loss; }},
      {.name = "model.moe.bias",
       .doc = "off: the two products of an expert have no biases. The router never has one.",
       .fallback = "on",
       .choices = {"on", "off"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, size_t) -> Slot { return &d.model.moe.bias; }},
  };
}

std::vector<Key> data_keys() {
  return {
      {.name = "data.kind",
       .doc = "text: files of text, cut into tokens by `data.tokenizer`. tokens: files of "
              "token indices. synthetic: random tokens, for timing; needs `model.vocab`. images: "
              "CIFAR-10's binary files, records of a byte for the class, 0 to 9, and 3072 for the "
              "pixels of 32 x 32 by channel (red, green, blue), row and column; without "
              "`data.path` 50,000 synthetic images in ten classes that can be learned. A pixel x "
              "becomes (x / 255 - 0.5) / 0.5; a patch has its 48 values by channel, row and "
              "column, and patches go row by row.",
       .fallback = "text",
       .choices = {"text", "tokens", "synthetic", "images"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.data.kind; }},
      {.name = "data.path",
       .doc = "Where the data is: needed for the kinds text and tokens, refused for synthetic, "
              "either for images. "
              "Relative paths start in the folder of the deck; in `--set` in the working "
              "directory.",
       .fallback = "[]",
       .slot = [](Deck& d, size_t) -> Slot { return &d.data.path; }},
      {.name = "data.tokenizer",
       .doc = "What is a token of a text: a byte, or a word.",
       .fallback = "bytes",
       .choices = {"bytes", "words"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.data.tokenizer; }},
      {.name = "data.validation",
       .doc = "What the validation loss is measured on. A number: this part of the data, its last "
              "windows of `model.sequence` tokens, or its last images, which training then does "
              "not see. Otherwise "
              "files as in `data.path`, of the same kind. Refused for the kind synthetic.",
       .fallback = "none",
       .choices = {"none"},
       .range = {.min = 0, .max = 0.5, .above_min = true},
       .path_of = "file",
       .slot = [](Deck& d, size_t) -> Slot { return &d.data.validation; }},
  };
}

std::vector<Key> train_keys() {
  return {
      {.name = "train.batch",
       .doc = "Sequences per step, all ranks together.",
       .range = {1, 1e9},
       .per_rank = true,
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.batch; }},
      {.name = "train.steps",
       .doc = "Number of optimizer steps.",
       .range = {1, 1e12},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.steps; }},
      {.name = "train.microbatches",
       .doc = "Parts of the batch, one of which computes while another communicates; gradients are "
              "those of the whole batch. At most `train.batch`, and few: two can hide each other's "
              "messages, and the time to plan a step grows with their number. auto: what the "
              "strategy says.",
       .fallback = "auto",
       .range = {1, kMaxMicrobatches},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.microbatches; }},
      {.name = "train.seed",
       .doc = "Parameters, dropout and the order of the data follow from it, on any number "
              "of ranks.",
       .fallback = "1",
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.seed; }},
      {.name = "train.lr",
       .doc = "Learning rate after the warmup.",
       .fallback = "1e-3",
       .range = {kLeast, 1000},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.lr; }},
      {.name = "train.schedule",
       .doc = "How the learning rate falls from the end of the warmup to the last step.",
       .fallback = "constant",
       .choices = {"constant", "linear", "cosine"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.schedule; }},
      {.name = "train.warmup_steps",
       .doc = "Steps in which the learning rate rises linearly to `train.lr`; at most "
              "`train.steps`.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.warmup_steps; }},
      {.name = "train.min_lr_ratio",
       .doc = "Learning rate at the end of the schedules linear and cosine, over `train.lr`.",
       .fallback = "0",
       .range = {0, 1},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.min_lr_ratio; }},
      {.name = "train.optimizer",
       .doc = "adam, or adamw, whose weight decay is apart from the gradient.",
       .fallback = "adam",
       .choices = {"adam", "adamw"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.optimizer; }},
      {.name = "train.beta1",
       .doc = "Decay of the mean of the gradients.",
       .fallback = "0.9",
       .range = {0, kSlowestDecay},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.beta1; }},
      {.name = "train.beta2",
       .doc = "Decay of the mean of the squared gradients.",
       .fallback = "0.999",
       .range = {0, kSlowestDecay},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.beta2; }},
      {.name = "train.epsilon",
       .doc = "Added to the root of the mean squared gradient before dividing by it.",
       .fallback = "1e-8",
       .range = {kLeast, 1},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.epsilon; }},
      {.name = "train.weight_decay",
       .doc = "Weight decay. adam adds it times the parameter to the gradient; adamw shrinks "
              "the parameter by it times the learning rate. 0: off.",
       .fallback = "0",
       .range = {0, 1000},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.weight_decay; }},
      {.name = "train.clip_norm",
       .doc = "Gradients whose norm over all parameters is larger are multiplied by clip_norm / "
              "(norm + 1e-6), as PyTorch does. 0: off.",
       .fallback = "0",
       .range = {.min = 1e-10, .max = 1e18, .or_zero = true},  // the square is a float, too
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.clip_norm; }},
      {.name = "train.bucket",
       .doc = "Gradients are reduced over the ranks in buckets of about this size.",
       .fallback = "4MiB",
       .range = {kKiB, kTiB},
       .unit = Unit::bytes,
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.bucket_bytes; }},
      {.name = "train.overlap",
       .doc = "on: communication runs beside computation. off: one instruction after the other, "
              "so that the timing file has the times of both alone; the results are the same.",
       .fallback = "on",
       .choices = {"on", "off"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.overlap; }},
      {.name = "train.timeline_every",
       .doc = "The timing file keeps the timeline of steps 1 to 3 and of every step that this "
              "divides. 0: of steps 1 to 3 only.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.timeline_every; }},
      {.name = "train.validate_every",
       .doc = "The validation loss is measured after every step that this divides, and after "
              "the last; needs `data.validation`. 0: after the last only.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.validate_every; }},
      {.name = "train.on_nan",
       .doc = "What happens when the loss or the gradients are not finite. stop: the step is run "
              "again instruction by instruction, and exit code 9 names the step, the rank and the "
              "first operation whose output is not finite. skip: the update skips the step, and "
              "training goes on.",
       .fallback = "stop",
       .choices = {"stop", "skip"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.on_nan; }},
  };
}

std::vector<Key> checkpoint_keys() {
  return {
      {.name = "train.checkpoint.every_steps",
       .doc = "A checkpoint is written after every step that this divides. 0: not by steps.",
       .fallback = "0",
       .range = {0, 1e12},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.checkpoint.every_steps; }},
      {.name = "train.checkpoint.every",
       .doc = "A checkpoint is written after the first step that ends this long after the last "
              "one. none: not by time.",
       .fallback = "none",
       .choices = {"none"},
       .range = {0.1, 1000 * kHour},
       .unit = Unit::seconds,
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.checkpoint.every_s; }},
      {.name = "train.checkpoint.keep",
       .doc = "How many checkpoints are kept: older ones are removed. 0: all.",
       .fallback = "3",
       .range = {0, 1e6},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.checkpoint.keep; }},
      {.name = "train.checkpoint.folder",
       .doc = "Where the checkpoints are. auto: the timing file's name with .ckpt instead of .h5. "
              "Relative paths start as those of `data.path`.",
       .fallback = "auto",
       .choices = {"auto"},
       .path_of = "folder",
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.checkpoint.folder; }},
      {.name = "train.checkpoint.blocking",
       .doc = "on: training waits until a checkpoint is written. off: it goes on meanwhile, for "
              "which the host keeps a copy of what is written.",
       .fallback = "off",
       .choices = {"on", "off"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.checkpoint.blocking; }},
      {.name = "train.checkpoint.on_error",
       .doc = "What happens when a checkpoint cannot be written; the one before it stays in any "
              "case. warn: training goes on with a warning. stop: it ends with exit code 6.",
       .fallback = "warn",
       .choices = {"warn", "stop"},
       .slot = [](Deck& d, size_t) -> Slot { return &d.train.checkpoint.on_error; }},
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> all;
  for (const auto& part :
       {model_keys(), moe_keys(), data_keys(), train_keys(), checkpoint_keys(), cluster_keys()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

std::span<const Section> sections() {
  static const std::vector<Section> kSections = {
      {"model", DeckFile::model, "What is trained. Sizes count elements."},
      {"data", DeckFile::model, "What it is trained on."},
      {"train", DeckFile::model, "How it is trained."},
      {"cluster", DeckFile::cluster, "What it is trained with."},
  };
  return kSections;
}

std::span<const Key> keys() {
  static const std::vector<Key> kKeys = all_keys();
  return kKeys;
}

const Condition* failed_condition(const Key& key, const Deck& deck) {
  for (const Condition& condition : key.conditions) {
    if (!condition.holds(deck)) {
      return &condition;
    }
  }
  return nullptr;
}

const Key* find_key(std::string_view name) {
  const auto all = keys();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Key& key) { return key.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::string_view section_of(std::string_view name) {
  return name.substr(0, name.find('.'));
}

std::optional<DeckFile> file_of(std::string_view section) {
  for (const Section& known : sections()) {
    if (known.name == section) {
      return known.file;
    }
  }
  return std::nullopt;
}

std::string_view describe(DeckFile file) {
  return file == DeckFile::model ? "model deck" : "cluster deck";
}

}  // namespace hidup
