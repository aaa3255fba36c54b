#include "deck/checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/limits.h"
#include "core/text.h"

namespace hidup {
namespace {

using Name = std::string_view;

// Whether all of these keys can be judged.
template <typename... Names>
bool usable(const DeckChecks& checks, Names... names) {
  return (checks.usable(names) && ...);
}

// "128 or 132": the multiples of `unit` around `value`.
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

// Of grouped attention with rotary positions.
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

// Experts per token.
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
  const MoeDeck& moe = model.moe;
  if (usable(checks, "model.moe.router", "model.moe.top_k", "model.moe.experts")) {
    check_choices(moe, checks);
  }
  if (usable(checks, "model.moe.router", "model.moe.balance_loss") && moe.router == "hash" &&
      moe.balance_loss > 0.0) {
    checks.report("model.moe.balance_loss",
                  "model.moe.balance_loss has no use with model.moe.router hash: no logits decide "
                  "where tokens go");
  }
  if (usable(checks, kEvery, "model.layers") && moe.every > model.layers) {
    checks.report(kEvery, fmt::format("{} {} is more than model.layers {}: no block has experts",
                                      kEvery, moe.every, model.layers));
  }
}

void check_data(const Deck& deck, const DeckChecks& checks) {
  const DataDeck& data = deck.data;
  if (!usable(checks, "data.kind")) {
    return;
  }
  const bool synthetic = data.kind == "synthetic";
  const bool images = data.kind == "images";
  if (usable(checks, "model.family") && (deck.model.family == "vit") != images) {
    checks.report("model.family",
                  images ? fmt::format("model.family {} is a language model, but data.kind images "
                                       "has no text: choose vit",
                                       deck.model.family)
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
  if (usable(checks, "train.validate_every", "data.validation") && deck.train.validate_every > 0 &&
      data.validation.empty()) {
    checks.report("train.validate_every",
                  fmt::format("train.validate_every {} needs data.validation: a part of the data, "
                              "or files",
                              deck.train.validate_every));
  }
  if (usable(checks, "model.vocab") && !deck.model.vocab && synthetic) {
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
  if (usable(checks, kName, "train.batch") && train.microbatches.value_or(1) > train.batch) {
    checks.report(kName, fmt::format("{} {} is more than train.batch {}: a part has a sequence at "
                                     "least",
                                     kName, *train.microbatches, train.batch));
  }
}

struct Factor {
  Name key;
  int64_t value;
};

// Whether the product is too large, which it reports at its largest factor.
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

// Products that 64 bits must count; the graph checks the sum of all its tensors.
void check_sizes(const Deck& deck, const DeckChecks& checks) {
  const Factor layers{"model.layers", deck.model.layers};
  const Factor hidden{"model.hidden", deck.model.hidden};
  const Factor ffn{"model.ffn", deck.model.ffn};
  const Factor heads{"model.heads", deck.model.heads};
  const Factor sequence{"model.sequence", deck.model.sequence};
  const Factor vocab{"model.vocab", deck.model.vocab.value_or(1)};
  const Factor batch{"train.batch", deck.train.batch};
  const Factor steps{"train.steps", deck.train.steps};
  const Factor experts{"model.moe.experts", deck.model.moe.experts};
  const std::vector<std::vector<Factor>> products = {
      {batch, heads, sequence, sequence},
      {batch, sequence, hidden},
      {batch, sequence, ffn},
      {batch, sequence, vocab},
      {steps, batch, sequence},
      {layers, hidden, ffn},
      // An expert has as many slots as a sequence has tokens, at most.
      {batch, experts, sequence, hidden},
      {batch, experts, sequence, ffn},
      {layers, experts, hidden, ffn},
  };
  for (const std::vector<Factor>& product : products) {
    if (report_if_too_large(product, checks)) {
      return;  // the others would mostly repeat it
    }
  }
}

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

void check_axis_names(const std::vector<MeshAxis>& mesh, const DeckChecks& checks) {
  constexpr size_t kLongestName = 40;
  for (size_t i = 0; i < mesh.size(); ++i) {
    const std::string key = fmt::format("cluster.mesh[{}].name", i);
    const std::string& name = mesh[i].name;
    if (!checks.usable(key)) {
      continue;
    }
    if (!is_identifier(name)) {
      checks.report(key, fmt::format("axis name \"{}\": expected letters, digits, _ and -, first "
                                     "a letter",
                                     shown(name)));
    } else if (name.size() > kLongestName) {
      checks.report(key, fmt::format("axis name \"{}\": expected at most {} characters, found {}",
                                     shown(name), kLongestName, name.size()));
    }
    const bool taken = std::any_of(mesh.begin(), mesh.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const MeshAxis& before) { return before.name == name; });
    if (taken) {
      checks.report(key, fmt::format("two axes are named {}", shown(name)));
    }
  }
}

// "node x gpu = 2 x auto"
std::string describe_mesh(const std::vector<MeshAxis>& mesh) {
  std::vector<std::string> names;
  std::vector<std::string> sizes;
  for (const MeshAxis& axis : mesh) {
    names.push_back(axis.name);
    sizes.push_back(axis.size ? fmt::format("{}", *axis.size) : "auto");
  }
  return fmt::format("{} = {}", fmt::join(names, " x "), fmt::join(sizes, " x "));
}

void check_axis_sizes(const std::vector<MeshAxis>& mesh, const DeckChecks& checks) {
  const MeshAxis* auto_axis = nullptr;
  int64_t ranks = 1;
  for (size_t i = 0; i < mesh.size(); ++i) {
    const std::string key = fmt::format("cluster.mesh[{}].size", i);
    if (!checks.usable(key)) {
      continue;
    }
    if (mesh[i].size) {
      ranks *= *mesh[i].size;
    } else if (auto_axis == nullptr) {
      auto_axis = &mesh[i];
    } else {
      checks.report(key, fmt::format("the axes {} and {} both have the size auto: only one may",
                                     auto_axis->name, mesh[i].name));
    }
    if (ranks > kMaxRanks) {
      checks.report(key, fmt::format("cluster.mesh: {} = {} ranks, more than {}",
                                     describe_mesh(mesh), ranks, kMaxRanks));
      return;
    }
  }
}

// What does not fit to this many ranks along each axis.
struct Misfit {
  std::string key;
  std::string message;
};

std::vector<Misfit> misfits(const ClusterDeck& cluster, const std::vector<int64_t>& sizes) {
  std::vector<Misfit> found;
  int64_t ranks = 1;  // on the inner axes
  for (size_t i = sizes.size(); i-- > 0; ranks *= sizes[i]) {
    const int64_t shared = cluster.mesh[i].shared;
    if (ranks % shared != 0) {
      const std::string key = fmt::format("cluster.mesh[{}].shared", i);
      found.push_back({key, fmt::format("{} {}, but the inner axes have {} rank(s): take a divisor "
                                        "of {}",
                                        key, shared, ranks, ranks)});
    }
  }
  int64_t devices = 0;
  std::vector<int64_t> counts;
  for (const DeviceClass& device : cluster.devices) {
    counts.push_back(device.count);
    devices += device.count;
  }
  if (!counts.empty() && devices != ranks) {
    found.push_back({"cluster.devices",
                     fmt::format("cluster.devices: {} = {} device(s), but there are {} rank(s)",
                                 fmt::join(counts, " + "), devices, ranks)});
  }
  return found;
}

void check_ranks_of_mesh(const ClusterDeck& cluster, const DeckChecks& checks) {
  std::vector<int64_t> sizes;
  double ranks = 1.0;
  for (size_t i = 0; i < cluster.mesh.size(); ++i) {
    if (!cluster.mesh[i].size || !checks.usable(fmt::format("cluster.mesh[{}].size", i))) {
      return;
    }
    sizes.push_back(*cluster.mesh[i].size);
    ranks *= static_cast<double>(sizes.back());
  }
  if (ranks > static_cast<double>(kMaxRanks)) {
    return;
  }
  for (const Misfit& misfit : misfits(cluster, sizes)) {
    if (checks.usable(misfit.key)) {
      checks.report(misfit.key, misfit.message);
    }
  }
}

// Links that vary in time.
void check_traces(const ClusterDeck& cluster, const DeckChecks& checks) {
  for (size_t i = 0; i < cluster.mesh.size(); ++i) {
    const std::string key = fmt::format("cluster.mesh[{}].bandwidth_trace", i);
    if (cluster.mesh[i].bandwidth_trace.empty() || !checks.usable(key)) {
      continue;
    }
    if (checks.usable("cluster.emulate") && cluster.emulate == "off") {
      checks.report(key, fmt::format("{} has no use with cluster.emulate off", key));
    }
    const std::string bandwidth = fmt::format("cluster.mesh[{}].bandwidth", i);
    if (checks.usable(bandwidth) && !cluster.mesh[i].bandwidth) {
      checks.report(key, fmt::format("{} needs a number as {}: predictions rest on that, and "
                                     "messages are faster or slower in proportion to it",
                                     key, bandwidth));
    }
  }
}

void check_emulation(const ClusterDeck& cluster, const DeckChecks& checks) {
  if (!usable(checks, "cluster.emulate") || cluster.emulate == "off") {
    return;
  }
  const bool has_file = cluster.profile != "auto" && !cluster.profile.empty();
  if (usable(checks, "cluster.devices", "cluster.profile") && !cluster.devices.empty() &&
      has_file) {
    checks.report("cluster.devices",
                  "cluster.devices has no use beside the file of cluster.profile, whose times are "
                  "those of all ranks: remove one of them");
  }
}

void check_mesh(const ClusterDeck& cluster, const DeckChecks& checks) {
  if (!usable(checks, "cluster.mesh")) {
    return;
  }
  if (cluster.mesh.empty()) {
    checks.report("cluster.mesh",
                  "cluster.mesh is empty: expected at least one axis, such as "
                  "{name: ranks, size: auto}");
  }
  check_axis_names(cluster.mesh, checks);
  check_axis_sizes(cluster.mesh, checks);
  check_ranks_of_mesh(cluster, checks);
  check_traces(cluster, checks);
}

}  // namespace

void check_relations(const Deck& deck, const DeckChecks& checks) {
  check_widths(deck.model, checks);
  check_llama(deck.model, checks);
  check_moe(deck.model, checks);
  check_data(deck, checks);
  check_schedule(deck.train, checks);
  check_microbatches(deck.train, checks);
  check_sizes(deck, checks);
  check_mesh(deck.cluster, checks);
  check_emulation(deck.cluster, checks);
}

std::vector<int64_t> check_ranks(const Deck& deck, int64_t ranks) {
  check(ranks >= 1, "{} ranks", ranks);
  const std::vector<MeshAxis>& axes = deck.cluster.mesh;
  int64_t known = 1;  // product of the sizes that are given
  bool has_auto = false;
  for (const MeshAxis& axis : axes) {
    known *= axis.size.value_or(1);
    has_auto = has_auto || !axis.size;
  }
  if (has_auto && ranks % known != 0) {
    fail_at(deck, "cluster.mesh",
            fmt::format("cluster.mesh: {}, but {} ranks are not a multiple of {}",
                        describe_mesh(axes), ranks, known));
  }
  if (!has_auto && ranks != known) {
    const std::string product = axes.size() > 1 ? fmt::format(" = {}", known) : "";
    fail_at(deck, "cluster.mesh",
            fmt::format("cluster.mesh: {}{} ranks, but there are {}", describe_mesh(axes), product,
                        ranks));
  }
  std::vector<int64_t> sizes(axes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = axes[i].size.value_or(ranks / known);
  }
  for (const Misfit& misfit : misfits(deck.cluster, sizes)) {
    fail_at(deck, misfit.key, misfit.message);
  }
  return sizes;
}

}  // namespace hidup
