#include "deck/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/limits.h"
#include "core/text.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"

namespace hidup {
namespace {

using Name = std::string_view;

// Returns the multiples of `unit` around `value`: "128 or 132".
std::string multiples_around(int64_t value, int64_t unit) {
  const int64_t below = value / unit * unit;
  return below == 0 ? fmt::format("{}", unit) : fmt::format("{} or {}", below, below + unit);
}

void check_widths(const ModelDeck& model, const DeckChecks& checks) {
  constexpr Name kName = "model.hidden";
  if (!usable(checks, kName, "model.heads")) {
    return;
  }
  const int64_t hidden = model.hidden;
  const int64_t heads = model.heads;
  const int64_t unit = heads % 2 == 0 ? heads : 2 * heads;
  if (hidden % heads != 0) {
    checks.report(kName,
                  fmt::format("{} {} = {} heads x {} + {}: take {}", kName, hidden, heads,
                              hidden / heads, hidden % heads, multiples_around(hidden, unit)));
  } else if (hidden % 2 != 0 && usable(checks, "model.family") && model.family == "bert") {
    checks.report(kName, fmt::format("{} {} is odd, but sinusoidal positions are pairs of a sine "
                                     "and a cosine: take {}",
                                     kName, hidden, multiples_around(hidden, unit)));
  }
}

// Checks grouped attention with rotary positions.
void check_llama(const ModelDeck& model, const DeckChecks& checks) {
  if (!usable(checks, "model.hidden", "model.heads", "model.kv_heads", "model.family") ||
      model.family != "llama" || model.hidden % model.heads != 0) {
    return;
  }
  const int64_t head = model.hidden / model.heads;
  const int64_t kv_heads = model.kv_heads.value_or(model.heads);
  if (head % 2 != 0) {
    checks.report("model.hidden",
                  fmt::format("model.hidden {} = {} heads x {}, but rotary positions turn pairs of "
                              "channels: take {}",
                              model.hidden, model.heads, head,
                              multiples_around(model.hidden, 2 * model.heads)));
  }
  if (model.heads % kv_heads != 0) {
    checks.report("model.kv_heads",
                  fmt::format("model.heads {} = {} heads of keys and values x {} + {}: take a "
                              "divisor of {}",
                              model.heads, kv_heads, model.heads / kv_heads, model.heads % kv_heads,
                              model.heads));
  }
}

// Checks the experts per token.
void check_choices(const MoeDeck& moe, const DeckChecks& checks) {
  constexpr Name kName = "model.moe.top_k";
  const int64_t fixed = moe.router == "top1" ? 1 : moe.router == "top2" ? 2 : 0;
  if (fixed == 2 && moe.experts == 1) {
    checks.report("model.moe.experts",
                  "model.moe.experts 1, but model.moe.router top2 chooses two experts: take more "
                  "experts, or top1");
  } else if (moe.router == "topk" && !moe.top_k) {
    checks.report(
        "model.moe.router",
        fmt::format("model.moe.router topk needs {}: how many experts it chooses", kName));
  } else if (fixed > 0 && moe.choices() != fixed) {
    checks.report(kName, fmt::format("{} {}, but model.moe.router {} chooses {}: take topk", kName,
                                     moe.choices(), moe.router, fixed == 1 ? "one expert" : "two"));
  } else if (moe.choices() > moe.experts) {
    checks.report(kName, fmt::format("{} {} is more than model.moe.experts {}", kName,
                                     moe.choices(), moe.experts));
  }
}

void check_moe(const ModelDeck& model, const DeckChecks& checks) {
  constexpr Name kEvery = "model.moe.every";
  constexpr Name kFirst = "model.moe.first_dense";
  const MoeDeck& moe = model.moe;
  if (usable(checks, "model.moe.router", "model.moe.top_k", "model.moe.experts")) {
    check_choices(moe, checks);
  }
  for (const auto& [name, balances] :
       {std::pair(Name("model.moe.balance_loss"), moe.balance_loss > 0.0),
        {"model.moe.balance_speed", moe.balance_speed.has_value()}}) {
    if (usable(checks, "model.moe.router", name) && !moe.learns() && balances) {
      checks.report(name, fmt::format("{} has no use with model.moe.router {}: no logits decide "
                                      "where tokens go",
                                      name, moe.router));
    }
  }
  if (usable(checks, kEvery, "model.layers") && moe.every > model.layers) {
    checks.report(kEvery, fmt::format("{} {} is more than model.layers {}: no block has experts",
                                      kEvery, moe.every, model.layers));
  } else if (usable(checks, kFirst, kEvery) && usable(checks, "model.layers") && moe.every > 0 &&
             moe.first_dense >= model.layers / moe.every * moe.every) {
    checks.report(kFirst,
                  fmt::format("{} {} leaves no block with experts: the last one is number "
                              "{}",
                              kFirst, moe.first_dense, model.layers / moe.every * moe.every));
  }
}

void check_data(const Deck& deck, const DeckChecks& checks) {
  const DataDeck& data = *deck.data;
  if (!usable(checks, "data.kind")) {
    return;
  }
  const bool synthetic = data.kind == "synthetic";
  const bool images = data.kind == "images";
  if (usable(checks, "model.family") && (deck.model->family == "vit") != images) {
    checks.report("model.family",
                  images ? fmt::format("model.family {} is a language model, but data.kind images "
                                       "has no text: choose vit",
                                       deck.model->family)
                         : fmt::format("model.family vit sees images, but data.kind is {}: choose "
                                       "the kind images",
                                       data.kind));
  }
  if (usable(checks, "data.path") && data.path.empty() && !synthetic && !images) {
    checks.report("data.path", fmt::format("data.kind {} needs data.path: a file, a glob or a "
                                           "list of them",
                                           data.kind));
  }
  if (usable(checks, "data.path") && !data.path.empty() && synthetic) {
    checks.report("data.path",
                  "data.kind synthetic reads no files: remove data.path, or choose "
                  "the kind text or tokens");
  }
  if (usable(checks, "data.validation") && !data.validation.empty() && synthetic) {
    checks.report("data.validation",
                  "data.kind synthetic has nothing to validate on: remove data.validation, or "
                  "choose the kind text or tokens");
  }
  if (usable(checks, "data.trace") && data.trace.empty()) {
    checks.report("data.trace",
                  "model.moe.router trace needs data.trace: a file of recorded loads");
  }
  if (usable(checks, "train.validate_every", "data.validation") && deck.train->validate_every > 0 &&
      data.validation.empty()) {
    checks.report("train.validate_every",
                  fmt::format("train.validate_every {} needs data.validation: a part of the data, "
                              "or files",
                              deck.train->validate_every));
  }
  if (usable(checks, "model.vocab") && !deck.model->vocab && synthetic) {
    checks.report("model.vocab",
                  "data.kind synthetic needs a number as model.vocab: there is no "
                  "data to take it from");
  }
  if (usable(checks, "data.tokenizer") && data.tokenizer == "words" && data.kind != "text") {
    checks.report("data.tokenizer",
                  fmt::format("data.tokenizer words is for data.kind text, not {}", data.kind));
  }
}

void check_schedule(const TrainDeck& train, const DeckChecks& checks) {
  if (usable(checks, "train.warmup_steps", "train.steps") && train.warmup_steps > train.steps) {
    checks.report("train.warmup_steps",
                  fmt::format("train.warmup_steps {} is more than train.steps {}",
                              train.warmup_steps, train.steps));
  }
}

void check_microbatches(const TrainDeck& train, const DeckChecks& checks) {
  constexpr Name kName = "train.microbatches";
  constexpr Name kGroups = "train.accumulate";
  if (usable(checks, kName, "train.batch") && train.microbatches.value_or(1) > train.batch) {
    checks.report(kName, fmt::format("{} {} is more than train.batch {}: a part has a sequence at "
                                     "least",
                                     kName, *train.microbatches, train.batch));
  } else if (usable(checks, kName, "train.batch") && usable(checks, kGroups, "train.batch") &&
             train.microbatches.value_or(1) * train.accumulate.value_or(1) > train.batch) {
    checks.report(
        kGroups,
        fmt::format("{} {} groups of {} microbatch(es) are more than train.batch "
                    "{}: a part has a sequence at least",
                    kGroups, *train.accumulate, train.microbatches.value_or(1), train.batch));
  }
}

struct Factor {
  Name key;
  int64_t value;
};

// Returns true if the product is too large, and reports it at its largest factor.
bool report_if_too_large(const std::vector<Factor>& factors, const DeckChecks& checks) {
  double product = 1.0;
  std::vector<Name> names;
  std::vector<int64_t> values;
  for (const Factor& factor : factors) {
    if (!checks.usable(factor.key)) {
      return false;
    }
    product *= static_cast<double>(factor.value);
    names.push_back(factor.key);
    values.push_back(factor.value);
  }
  if (product <= kMaxElements) {
    return false;
  }
  const auto largest = std::max_element(values.begin(), values.end());
  checks.report(names[static_cast<size_t>(largest - values.begin())],
                fmt::format("{} = {} = {:.3g}, more than 2^56 = {:.3g}", fmt::join(names, " x "),
                            fmt::join(values, " x "), product, kMaxElements));
  return true;
}

// Checks products that 64 bits must count; the graph checks the sum of all its tensors.
void check_sizes(const Deck& deck, const DeckChecks& checks) {
  const Factor layers{"model.layers", deck.model->layers};
  const Factor hidden{"model.hidden", deck.model->hidden};
  const Factor ffn{"model.ffn", deck.model->ffn};
  const Factor heads{"model.heads", deck.model->heads};
  const Factor sequence{"model.sequence", deck.model->sequence};
  const Factor vocab{"model.vocab", deck.model->vocab.value_or(1)};
  const Factor batch{"train.batch", deck.train->batch};
  const Factor steps{"train.steps", deck.train->steps};
  const Factor experts{"model.moe.experts", deck.model->moe.experts};
  const Factor width{deck.model->moe.ffn ? "model.moe.ffn" : "model.ffn",
                     deck.model->moe.ffn.value_or(deck.model->ffn)};
  const Factor shared{"model.moe.shared_experts", deck.model->moe.shared_experts};
  const std::vector<std::vector<Factor>> products = {
      {batch, heads, sequence, sequence},
      {batch, sequence, hidden},
      {batch, sequence, ffn},
      {batch, sequence, vocab},
      {steps, batch, sequence},
      {layers, hidden, ffn},
      // An expert has at most as many slots as a sequence has tokens.
      {batch, experts, sequence, hidden},
      {batch, experts, sequence, width},
      {layers, experts, hidden, width},
      {batch, shared, sequence, width},
      {layers, shared, hidden, width},
  };
  for (const std::vector<Factor>& product : products) {
    if (report_if_too_large(product, checks)) {
      return;  // other products would mostly repeat it
    }
  }
}

}  // namespace

void check_relations(const Deck& deck, const DeckChecks& checks) {
  check_widths(*deck.model, checks);
  check_llama(*deck.model, checks);
  check_moe(*deck.model, checks);
  check_data(deck, checks);
  check_schedule(*deck.train, checks);
  check_microbatches(*deck.train, checks);
  check_sizes(deck, checks);
  check_cluster(*deck.cluster, checks);
}

}  // namespace hidup
