#include "interchange/name_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

constexpr TheirLayout kVector = TheirLayout::vector;
constexpr TheirLayout kMatrix = TheirLayout::matrix;
constexpr TheirLayout kTransposed = TheirLayout::transposed;

// GPT2LMHeadModel of transformers. Its products (Conv1D) have inputs as rows, as ours do.
constexpr NameRow kGpt2[] = {
    {"embedding.weight", "transformer.wte.weight"},
    {.ours = "positions.weight", .theirs = "transformer.wpe.weight", .longer = true},
    {"layers.{}.norm1.weight", "transformer.h.{}.ln_1.weight"},
    {"layers.{}.norm1.bias", "transformer.h.{}.ln_1.bias"},
    {"layers.{}.attention.qkv.weight", "transformer.h.{}.attn.c_attn.weight", kMatrix},
    {"layers.{}.attention.qkv.bias", "transformer.h.{}.attn.c_attn.bias", kVector},
    {"layers.{}.attention.out.weight", "transformer.h.{}.attn.c_proj.weight", kMatrix, 2},
    {"layers.{}.attention.out.bias", "transformer.h.{}.attn.c_proj.bias"},
    {"layers.{}.norm2.weight", "transformer.h.{}.ln_2.weight"},
    {"layers.{}.norm2.bias", "transformer.h.{}.ln_2.bias"},
    {"layers.{}.ffn.up.weight", "transformer.h.{}.mlp.c_fc.weight"},
    {"layers.{}.ffn.up.bias", "transformer.h.{}.mlp.c_fc.bias"},
    {"layers.{}.ffn.down.weight", "transformer.h.{}.mlp.c_proj.weight"},
    {"layers.{}.ffn.down.bias", "transformer.h.{}.mlp.c_proj.bias"},
    {"norm.weight", "transformer.ln_f.weight"},
    {"norm.bias", "transformer.ln_f.bias"},
};
constexpr NameCopy kGpt2Copies[] = {{"lm_head.weight", "transformer.wte.weight"}};
constexpr std::string_view kGpt2Ignored[] = {"transformer.h.{}.attn.bias",  // the causal mask
                                             "transformer.h.{}.attn.masked_bias"};

// LlamaForCausalLM of transformers. Its products have outputs as rows.
constexpr NameRow kLlama[] = {
    {"embedding.weight", "model.embed_tokens.weight"},
    {"layers.{}.norm1.weight", "model.layers.{}.input_layernorm.weight"},
    {"layers.{}.attention.q.weight", "model.layers.{}.self_attn.q_proj.weight", kTransposed},
    {"layers.{}.attention.k.weight", "model.layers.{}.self_attn.k_proj.weight", kTransposed},
    {"layers.{}.attention.v.weight", "model.layers.{}.self_attn.v_proj.weight", kTransposed},
    {"layers.{}.attention.out.weight", "model.layers.{}.self_attn.o_proj.weight", kTransposed, 3},
    {"layers.{}.norm2.weight", "model.layers.{}.post_attention_layernorm.weight"},
    {"norm.weight", "model.norm.weight"},
    {"head.weight", "lm_head.weight", kTransposed},
    {"layers.{}.ffn.gate.weight", "model.layers.{}.mlp.gate_proj.weight", kTransposed},
    {"layers.{}.ffn.up.weight", "model.layers.{}.mlp.up_proj.weight", kTransposed},
    {"layers.{}.ffn.down.weight", "model.layers.{}.mlp.down_proj.weight", kTransposed},
};
constexpr size_t kLlamaOutside = std::size(kLlama) - 3;  // rows outside of feed-forward networks

// MixtralForCausalLM: its w1 is the gate, w2 down and w3 up. It adds these to Llama's other rows.
constexpr NameRow kMixtralExperts[] = {
    {"layers.{}.moe.router.weight", "model.layers.{}.block_sparse_moe.gate.weight", kTransposed},
    {"layers.{}.moe.experts.gate.weight",
     "model.layers.{}.block_sparse_moe.experts.{expert}.w1.weight", kTransposed},
    {"layers.{}.moe.experts.up.weight",
     "model.layers.{}.block_sparse_moe.experts.{expert}.w3.weight", kTransposed},
    {"layers.{}.moe.experts.down.weight",
     "model.layers.{}.block_sparse_moe.experts.{expert}.w2.weight", kTransposed},
};
// The DeepSeek models before multi-head latent attention, such as deepseek-moe-16b, and
// Glm4MoeForCausalLM, which routes as DeepSeek-V3 does. They add these to all of Llama's rows.
constexpr NameRow kDeepSeekExperts[] = {
    {"layers.{}.moe.router.weight", "model.layers.{}.mlp.gate.weight", kTransposed},
    {"layers.{}.moe.router.balance", "model.layers.{}.mlp.gate.e_score_correction_bias"},
    {"layers.{}.moe.experts.gate.weight", "model.layers.{}.mlp.experts.{expert}.gate_proj.weight",
     kTransposed},
    {"layers.{}.moe.experts.up.weight", "model.layers.{}.mlp.experts.{expert}.up_proj.weight",
     kTransposed},
    {"layers.{}.moe.experts.down.weight", "model.layers.{}.mlp.experts.{expert}.down_proj.weight",
     kTransposed},
    {"layers.{}.moe.shared.gate.weight", "model.layers.{}.mlp.shared_experts.gate_proj.weight",
     kTransposed},
    {"layers.{}.moe.shared.up.weight", "model.layers.{}.mlp.shared_experts.up_proj.weight",
     kTransposed},
    {"layers.{}.moe.shared.down.weight", "model.layers.{}.mlp.shared_experts.down_proj.weight",
     kTransposed},
};
template <size_t kFirst, size_t kMore>
constexpr auto joined(const NameRow* first, const NameRow (&more)[kMore]) {
  std::array<NameRow, kFirst + kMore> rows{};
  std::copy(first, first + kFirst, rows.begin());
  std::copy(more, more + kMore, rows.begin() + kFirst);
  return rows;
}
constexpr auto kMixtral = joined<kLlamaOutside>(kLlama, kMixtralExperts);
constexpr auto kDeepSeek = joined<std::size(kLlama)>(kLlama, kDeepSeekExperts);
constexpr NameCopy kLlamaCopies[] = {{"lm_head.weight", "model.embed_tokens.weight"}};
constexpr std::string_view kLlamaIgnored[] = {"model.layers.{}.self_attn.rotary_emb.inv_freq"};

const std::array kMaps = {
    NameMap{.name = "hidup"},
    NameMap{.name = "gpt2",
            .family = "gpt",
            .prefix = "transformer.",
            .rows = kGpt2,
            .copies = kGpt2Copies,
            .ignored = kGpt2Ignored},
    NameMap{.name = "mixtral",
            .family = "llama",
            .prefix = "model.",
            .mark = kMixtralExperts[0].theirs,
            .rows = kMixtral,
            .copies = kLlamaCopies,
            .ignored = kLlamaIgnored},
    NameMap{.name = "deepseek",
            .family = "llama",
            .prefix = "model.",
            .mark = kDeepSeekExperts[0].theirs,
            .rows = kDeepSeek,
            .copies = kLlamaCopies,
            .ignored = kLlamaIgnored},
    NameMap{.name = "llama",
            .family = "llama",
            .prefix = "model.",
            .rows = kLlama,
            .copies = kLlamaCopies,
            .ignored = kLlamaIgnored},
};

// Returns the text in place of "{}", "" for a pattern without it; nothing for another name.
std::optional<std::string_view> layer_in(std::string_view pattern, std::string_view name) {
  const size_t at = pattern.find("{}");
  if (at == std::string_view::npos) {
    return pattern == name ? std::optional<std::string_view>("") : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, at);
  const std::string_view after = pattern.substr(at + 2);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  const std::string_view layer = name.substr(at, name.size() - before.size() - after.size());
  const bool number = layer.find_first_not_of("0123456789") == std::string_view::npos;
  return number ? std::optional(layer) : std::nullopt;
}

constexpr std::string_view kExpert = "{expert}";

// Returns the pattern with the text in place of the mark.
std::string with(std::string_view pattern, std::string_view mark, std::string_view text) {
  std::string name(pattern);
  const size_t at = name.find(mark);
  return at == std::string::npos ? name : name.replace(at, mark.size(), text);
}

// Returns their tensor of that name for our parameter, or for an expert of it, of that shape.
TheirTensor of_row(const NameRow& row, std::string name, const Shape& shape) {
  TheirTensor found{.name = std::move(name), .shape = shape, .longer = row.longer};
  const auto split = shape.begin() + row.rows;
  if (row.layout == TheirLayout::vector) {
    found.shape = {elements(shape)};
  } else if (row.layout != TheirLayout::same) {
    found.rows = elements({shape.begin(), split});
    const int64_t columns = elements({split, shape.end()});
    found.transposed = row.layout == TheirLayout::transposed;
    found.shape = found.transposed ? Shape{columns, found.rows} : Shape{found.rows, columns};
  }
  return found;
}

}  // namespace

const NameMap* find_name_map(std::string_view name) {
  const auto* const found = std::ranges::find(kMaps, name, &NameMap::name);
  return found == kMaps.end() ? nullptr : found;
}

std::vector<std::string> name_maps() {
  std::vector<std::string> names;
  names.reserve(kMaps.size());
  for (const NameMap& map : kMaps) {
    names.emplace_back(map.name);
  }
  return names;
}

bool is_ignored(const NameMap& map, std::string_view theirs) {
  return std::ranges::any_of(map.ignored, [&](std::string_view pattern) {
    return layer_in(pattern, theirs) || layer_in(pattern.substr(map.prefix.size()), theirs);
  });
}

bool is_named(std::string_view pattern, std::string_view name) {
  return layer_in(pattern, name).has_value();
}

std::vector<TheirTensor> their_tensors(const NameMap& map, const std::string& ours,
                                       const Shape& shape) {
  if (map.rows.empty()) {
    return {{.name = ours, .shape = shape}};
  }
  for (const NameRow& row : map.rows) {
    const std::optional<std::string_view> layer = layer_in(row.ours, ours);
    if (!layer) {
      continue;
    }
    const std::string name = with(row.theirs, "{}", *layer);
    if (name.find(kExpert) == std::string::npos) {
      return {of_row(row, name, shape)};
    }
    std::vector<TheirTensor> all;
    for (int64_t expert = 0; expert < shape[0]; ++expert) {
      all.push_back(of_row(row, with(name, kExpert, std::to_string(expert)),
                           {shape.begin() + 1, shape.end()}));
      all.back().part = expert;
    }
    return all;
  }
  fail(ExitCode::usage, "the names of {} have none for the parameter {}", map.name, ours);
}

}  // namespace hidup
