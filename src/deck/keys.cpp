#include "deck/keys.h"

#include <algorithm>

#include "core/images.h"
#include "core/limits.h"
#include "deck/cluster_keys.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/search_deck.h"
#include "deck/train_keys.h"

namespace hidup {
namespace {

// Token indices are 32-bit integers.
constexpr double kMaxVocab = 2147483647.0;

constexpr Condition kNoGraph = {"model.graph", [](const Deck& d) { return d.model->graph.empty(); },
                                "is given by the graph of model.graph: remove it"};
constexpr Condition kNoImages = {"data.kind",
                                 [](const Deck& d) { return d.data->kind != "images"; },
                                 "is fixed with data.kind images: remove it"};
constexpr Condition kIsLlama = {"model.family",
                                [](const Deck& d) { return d.model->family == "llama"; },
                                "is about the family llama only"};
constexpr Condition kDropsNothing = {
    "model.moe.capacity_factor", [](const Deck& d) { return !d.model->moe.capacity_factor; },
    "is about experts without capacity, but with model.moe.capacity_factor every expert has its "
    "slots: set model.moe.capacity_factor: none"};
constexpr Condition kHasExperts = {"model.moe.experts",
                                   [](const Deck& d) { return d.model->moe.experts > 0; },
                                   "is about experts, but model.moe.experts is missing or 0"};

constexpr Condition kReadsTrace = {
    "model.moe.router",
    [](const Deck& d) { return d.model->moe.experts > 0 && d.model->moe.router == "trace"; },
    "has the loads of the router trace: set model.moe.router: trace"};
constexpr Condition kDrawsLoads = {
    "model.moe.router", [](const Deck& d) { return d.model->moe.router == "log-normal"; },
    "is about the router log-normal only"};

constexpr Condition kHasBalanceLoss = {
    "model.moe.balance_loss", [](const Deck& d) { return d.model->moe.balance_loss > 0.0; },
    "says what the balance loss is, but model.moe.balance_loss is missing or 0"};

std::vector<Key> model_keys() {
  return {
      {.name = "model.family",
       .doc = "The architecture. bert, gpt and llama are language models, which predict each "
              "token from those before it. bert: BERT's blocks (layer norm behind each half, "
              "ReLU, sinusoidal positions). gpt: GPT-2 (layer norm before each half, GELU, "
              "learned positions, the head tied to the embedding). llama: Llama (RMS norm "
              "before each half, SwiGLU, rotary positions, heads that share keys and values, no "
              "biases). vit: a classifier of `data.kind` images; its blocks are bert's without "
              "the mask, its input is 64 patches of 4 x 4 pixels behind a class token, with "
              "learned positions.",
       .fallback = "bert",
       .choices = {"bert", "gpt", "vit", "llama"},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->family; }},
      {.name = "model.graph",
       .doc = "A file with a graph of one device as text, which replaces a family. Family, "
              "layers, hidden, ffn, heads, dropout and experts are then the graph's, and an "
              "error here; `model.sequence` and `train.batch` must equal the graph's. Relative "
              "paths start as those of `data.path`.",
       .fallback = "none",
       .choices = {"none"},
       .path_of = "file",
       .slot = [](Deck& d, Item) -> Slot { return &d.model->graph; }},
      {.name = "model.layers",
       .doc = "Number of transformer blocks.",
       .range = {1, 10000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->layers; }},
      {.name = "model.hidden",
       .doc = "Width of the model: a multiple of `model.heads`, and even for the family bert.",
       .range = {2, 1000000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->hidden; }},
      {.name = "model.ffn",
       .doc = "Inner width of the feed-forward network of a block.",
       .fallback = "4 x model.hidden",
       .derived = [](const Deck& d) { return 4 * d.model->hidden; },
       .range = {1, 10000000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->ffn; }},
      {.name = "model.heads",
       .doc = "Attention heads of a block; each is `model.hidden` / `model.heads` wide.",
       .range = {1, 10000},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->heads; }},
      {.name = "model.kv_heads",
       .doc = "Heads of keys and values in a block. Each serves the same number of "
              "`model.heads`. auto: as many as `model.heads`.",
       .fallback = "auto",
       .range = {1, 10000},
       .conditions = {kNoGraph, kIsLlama},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->kv_heads; }},
      {.name = "model.rope_theta",
       .doc = "Base of the angles of rotary positions.",
       .fallback = "10000",
       .range = {1.0, 1e9},
       .conditions = {kNoGraph, kIsLlama},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->rope_theta; }},
      {.name = "model.norm_epsilon",
       .doc = "What a norm adds to the variance, or to the mean square.",
       .fallback = "1e-5",
       .range = {1e-12, 1.0},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->norm_epsilon; }},
      {.name = "model.tied_head",
       .doc = "on: the head uses the embedding's weight. off: the head has a weight of its own.",
       .fallback = "off",
       .choices = {"on", "off"},
       .conditions = {kNoGraph, kIsLlama},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->tied_head; }},
      {.name = "model.sequence",
       .doc = "Tokens of a sequence. Images have 65, the patches and the class token; the key "
              "is an error for them.",
       .range = {1, 10000000},
       .conditions = {kNoImages},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->sequence; }},
      {.name = "model.vocab",
       .doc = "Number of different tokens. auto: as many as the data needs. Images have 10 "
              "classes; the key is an error for them.",
       .fallback = "auto",
       .range = {1, kMaxVocab},
       .conditions = {kNoImages},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->vocab; }},
      {.name = "model.dropout",
       .doc = "Probability that dropout zeroes an element.",
       .fallback = "0",
       .range = {.min = kMinDropout, .max = kMaxDropout, .or_zero = true},
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->dropout; }},
      {.name = "model.precision",
       .doc = "Number format of parameters and activations; it overrides that of a graph file. "
              "bf16 and fp16 take 16 bits; gradients of parameters, the optimizer's state with "
              "a master copy of the parameters, and all sums take 32 (`train.gradients` says "
              "how gradients are sent). fp16 scales the loss, from 65536 on: a step whose "
              "gradients overflow changes nothing and halves the scale, and 2000 steps without "
              "an overflow double it.",
       .fallback = "fp32",
       .choices = {"fp32", "bf16", "fp16"},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->precision; }},
  };
}

std::vector<Key> moe_keys() {
  return {
      {.name = "model.moe.experts",
       .doc = "Experts of a block that has them instead of a feed-forward network. Each is such a "
              "network as the family's other blocks have, so llama's are SwiGLU. 0: the model "
              "is dense.",
       .fallback = "0",
       .range = {0, 100000},
       .per_rank = true,
       .conditions = {kNoGraph},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.experts; }},
      {.name = "model.moe.every",
       .doc = "Every n-th block has experts: 2 means the second, the fourth and so on. At most "
              "`model.layers`.",
       .fallback = "2",
       .range = {1, 10000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.every; }},
      {.name = "model.moe.first_dense",
       .doc = "The first blocks, so many, have no experts whatever `model.moe.every` is.",
       .fallback = "0",
       .range = {0, 10000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.first_dense; }},
      {.name = "model.moe.ffn",
       .doc = "Inner width of an expert. auto: `model.ffn`, which then is that of the other blocks "
              "only.",
       .fallback = "auto",
       .range = {1, 10000000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.ffn; }},
      {.name = "model.moe.shared_experts",
       .doc = "Experts that every token passes beside those that it chooses, without a weight: one "
              "feed-forward network of so many times the inner width of an expert (DeepSeekMoE).",
       .fallback = "0",
       .range = {0, 1000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.shared_experts; }},
      {.name = "model.moe.router",
       .doc = "How the experts of a token are chosen. top1, top2, topk: a learned router takes "
              "the one, two or `model.moe.top_k` experts that it rates highest. hash: one "
              "expert (or `model.moe.top_k` of them) per place in the batch, at random and the "
              "same in every step. The others are workloads for tests and benchmarks: they give "
              "the experts set loads, by the seed, the step and a token's place in the batch, and "
              "the router learns only the weights. trace: recorded loads (`data.trace`). "
              "log-normal: drawn ones (`model.moe.sigma`). The eight from balanced to burst are "
              "described in docs/models.md.",
       .fallback = "top2",
       .choices = {"top1", "top2", "topk", "hash", "trace", "log-normal", "balanced", "hot-experts",
                   "hot-rank", "spread", "ragged", "idle", "moving", "burst"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.router; }},
      {.name = "model.moe.top_k",
       .doc = "Experts per token, at most `model.moe.experts`. The router topk needs a number. "
              "auto: 1 for top1 and hash, otherwise 2. All first choices take slots before any "
              "second choice, second choices before third ones, and so on.",
       .fallback = "auto",
       .range = {1, 100000},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.top_k; }},
      {.name = "model.moe.sigma",
       .doc = "Standard deviation of the logarithm of an expert's load, for the router log-normal: "
              "0 gives equal loads. Loads differ between layers and are the same in every step.",
       .fallback = "1",
       .range = {0.0, 5.0},
       .conditions = {kNoGraph, kHasExperts, kDrawsLoads},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.sigma; }},
      {.name = "model.moe.score",
       .doc = "How the router's logits become the weights of a token's experts. softmax: "
              "probabilities of all experts, which add up to 1. sigmoid: the sigmoid of each logit "
              "by itself (DeepSeek-V3). The router's losses take the softmax in both cases.",
       .fallback = "softmax",
       .choices = {"softmax", "sigmoid"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.score; }},
      {.name = "model.moe.normalize",
       .doc = "How the experts of a token are weighted where there are several. on: their "
              "weights add up to 1 (GShard). off: each weight is the router's score of the "
              "expert, as it always is where a token has one expert (Switch).",
       .fallback = "on",
       .choices = {"on", "off"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.normalize; }},
      {.name = "model.moe.routed_scaling",
       .doc = "Factor of the weights of a token's experts, behind `model.moe.normalize`.",
       .fallback = "1",
       .range = {kLeastFactor, 1e6},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.routed_scaling; }},
      {.name = "model.moe.capacity_factor",
       .doc = "Slots of an expert per sequence, over what an even choice of the experts needs, "
              "rounded up: ceil(capacity_factor x top_k x sequence / experts), at least 1, at most "
              "`model.sequence`. A choice that finds no slot is dropped. none: no choice is "
              "dropped. Ranks send and compute the rows that tokens take, and an expert that many "
              "tokens choose is slow.",
       .fallback = "1.25",
       .choices = {"none"},
       .range = {.min = 0, .max = 1e6, .above_min = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.capacity_factor; }},
      {.name = "model.moe.slack",
       .doc =
           "Memory for the rows of experts where `model.moe.capacity_factor` is none: of every "
           "expert and sequence, so many times the mean. Rows beyond that are computed in further "
           "rounds, which take the same memory and are recomputed in the backward pass. Steps "
           "with uneven loads are then slower, and ranks with some of the experts need less "
           "memory. none: memory for all the rows that tokens may send to a rank's experts.",
       .fallback = "none",
       .choices = {"none"},
       .range = {.min = 1, .max = 1e6},
       .conditions = {kNoGraph, kHasExperts, kDropsNothing},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.slack; }},
      {.name = "model.moe.load",
       .doc = "The loads of the experts that search, predictions and floors expect where "
              "`model.moe.capacity_factor` is none. A file: a line per layer with experts, with "
              "the tokens of each expert, as `python3 -m analysis experts --loads` makes it from "
              "a run; further layers have the loads of the last line. even: all alike. Relative "
              "paths start as those of `data.path`.",
       .fallback = "even",
       .choices = {"even"},
       .path_of = "file",
       .conditions = {kNoGraph, kHasExperts, kDropsNothing},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.load; }},
      {.name = "model.moe.warn_imbalance",
       .doc = "`train` warns once of a layer whose largest load of an expert over the mean of all "
              "experts is above this number, in the mean of 20 steps. 0: never. The summary tells "
              "the loads anyway.",
       .fallback = "4",
       .range = {.min = 1, .max = 1e6, .or_zero = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.warn_imbalance; }},
      {.name = "model.moe.balance_loss",
       .doc = "Weight of the balance loss of every block with experts, which is small where "
              "tokens are spread evenly. It is minimised beside the loss, computed over the "
              "whole batch, and reported apart from the loss and without the weight. 0: none. "
              "An error for the router hash and for workloads.",
       .fallback = "0",
       .range = {.min = kLeastFactor, .max = 1e6, .or_zero = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.balance_loss; }},
      {.name = "model.moe.balance",
       .doc = "The formula of the balance loss. P is the mean over all tokens of an expert's "
              "probability. switch: the number of experts times the sum over the experts of f x "
              "P, where f is the expert's share of all choices before any is dropped. gshard: "
              "the mean over the experts of f x P, where f is the expert's share of the first "
              "choices.",
       .fallback = "switch",
       .choices = {"switch", "gshard"},
       .conditions = {kNoGraph, kHasExperts, kHasBalanceLoss},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.balance; }},
      {.name = "model.moe.z_loss",
       .doc = "Weight of the router's z loss, the mean over all tokens of the square of "
              "log(sum(exp(logits))) (ST-MoE). It is minimised beside the loss, and reported as "
              "the balance loss is. 0: none.",
       .fallback = "0",
       .range = {.min = kLeastFactor, .max = 1e6, .or_zero = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.z_loss; }},
      {.name = "model.moe.balance_speed",
       .doc =
           "Balances the experts without a loss (DeepSeek-V3, where it is 0.001). Each expert has "
           "a bias, which is added to its score for the choice only and not for its weight. After "
           "a step the bias rises by this number if fewer tokens of the whole batch chose the "
           "expert than the mean of all experts, and falls by it if more did. 0: biases stay "
           "as they are, which are 0 or those of --init. none: no biases. An error for the router "
           "hash and for workloads.",
       .fallback = "none",
       .choices = {"none"},
       .range = {.min = kLeastFactor, .max = 1e6, .or_zero = true},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.balance_speed; }},
      {.name = "model.moe.bias",
       .doc = "off: the products of an expert have no biases, neither have those of shared "
              "experts. The router's product never has one.",
       .fallback = "on",
       .choices = {"on", "off"},
       .conditions = {kNoGraph, kHasExperts},
       .slot = [](Deck& d, Item) -> Slot { return &d.model->moe.bias; }},
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
       .slot = [](Deck& d, Item) -> Slot { return &d.data->kind; }},
      {.name = "data.path",
       .doc = "The files of the data. The kinds text and tokens need it, images may have it, "
              "synthetic may not. Relative paths start in the folder of the deck; in `--set` in "
              "the working directory.",
       .fallback = "[]",
       .slot = [](Deck& d, Item) -> Slot { return &d.data->path; }},
      {.name = "data.tokenizer",
       .doc = "The tokens of a text: its bytes, or its words.",
       .fallback = "bytes",
       .choices = {"bytes", "words"},
       .slot = [](Deck& d, Item) -> Slot { return &d.data->tokenizer; }},
      {.name = "data.validation",
       .doc = "The data on which the validation loss is measured. A number: this part of the "
              "data, its last windows of `model.sequence` tokens or its last images, which "
              "training then does not see. Otherwise files as in `data.path`, of the same kind. "
              "An error for the kind synthetic.",
       .fallback = "none",
       .choices = {"none"},
       .range = {.min = 0, .max = 0.5, .above_min = true},
       .path_of = "file",
       .slot = [](Deck& d, Item) -> Slot { return &d.data->validation; }},
      {.name = "data.trace",
       .doc = "A file of recorded loads for the router trace: a line per layer with experts, with "
              "the tokens of each expert, as `model.moe.load` reads it. Samples in time follow one "
              "another, each behind an empty line; step s has sample (s - 1) modulo their number. "
              "Relative paths start as those of `data.path`.",
       .fallback = "none",
       .choices = {"none"},
       .path_of = "file",
       .conditions = {kReadsTrace},
       .slot = [](Deck& d, Item) -> Slot { return &d.data->trace; }},
  };
}

std::vector<Key> search_keys() {
  return {
      {.name = "search.method",
       .doc =
           "How a search finds the plans that it simulates. dp: by dynamic programming. astar: by "
           "best-first search, a second opinion that finds the best plan by the search's cost "
           "model, but only for graphs of few operations on few axes; for larger ones it is an "
           "error. auto: dp.",
       .fallback = "auto",
       .choices = {"auto", "dp", "astar"},
       .slot = [](Deck& d, Item) -> Slot { return &d.search->method; }},
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> all;
  for (const auto& part : {model_keys(), moe_keys(), data_keys(), train_keys(), checkpoint_keys(),
                           search_keys(), cluster_keys()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

std::span<const Section> sections() {
  static const std::vector<Section> kSections = {
      {"model", DeckFile::model, "The model. Sizes count elements."},
      {"data", DeckFile::model, "The data."},
      {"train", DeckFile::model, "The training."},
      {"search", DeckFile::model, "The search for a strategy."},
      {"cluster", DeckFile::cluster, "The cluster."},
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
