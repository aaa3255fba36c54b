#include "interchange/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "core/check.h"
#include "core/file.h"
#include "core/text.h"
#include "deck/model_deck.h"

namespace hidup {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Pointer = Json::json_pointer;

// The deck and its vocabulary.
struct Model {
  const Deck& deck;
  int64_t vocab = 0;

  const ModelDeck* operator->() const { return &*deck.model; }
};

bool equal(const Json& given, const Json& own, const Model& /*model*/) {
  return given == own;
}
// Accepts null where our model lacks the value or derives it.
bool equal_or_null(const Json& given, const Json& own, const Model& /*model*/) {
  return given.is_null() || given == own;
}
bool at_least(const Json& given, const Json& own, const Model& /*model*/) {
  return given.is_number() && given >= own;
}
bool is_tanh_gelu(const Json& given, const Json& own, const Model& /*model*/) {
  return given == own || given == "gelu_pytorch_tanh";
}
// Takes null for four times the hidden width.
bool equal_inner(const Json& given, const Json& own, const Model& model) {
  return given.is_null() ? own == 4 * model->hidden : given == own;
}
// Accepts any value that does not change the model's function.
bool any(const Json& /*given*/, const Json& /*own*/, const Model& /*model*/) {
  return true;
}

// A value of config.json. A missing value is not checked.
struct Row {
  const char* theirs;  // a JSON pointer
  const char* ours;    // the deck's key; empty: all models of the family have this value
  Json (*value)(const Model& model);
  bool (*fits)(const Json& given, const Json& own, const Model& model) = equal;
};

const Row kGpt2Config[] = {
    {"/architectures", "", [](const Model&) -> Json { return {"GPT2LMHeadModel"}; }, any},
    {"/model_type", "", [](const Model&) -> Json { return "gpt2"; }},
    {"/vocab_size", "model.vocab", [](const Model& m) -> Json { return m.vocab; }},
    {"/n_positions", "model.sequence", [](const Model& m) -> Json { return m->sequence; },
     at_least},
    {"/n_embd", "model.hidden", [](const Model& m) -> Json { return m->hidden; }},
    {"/n_layer", "model.layers", [](const Model& m) -> Json { return m->layers; }},
    {"/n_head", "model.heads", [](const Model& m) -> Json { return m->heads; }},
    {"/n_inner", "model.ffn", [](const Model& m) -> Json { return m->ffn; }, equal_inner},
    {"/activation_function", "", [](const Model&) -> Json { return "gelu_new"; }, is_tanh_gelu},
    {"/layer_norm_epsilon", "model.norm_epsilon",
     [](const Model& m) -> Json { return m->norm_epsilon; }},
    {"/embd_pdrop", "model.dropout", [](const Model& m) -> Json { return m->dropout; }, any},
    {"/resid_pdrop", "model.dropout", [](const Model& m) -> Json { return m->dropout; }, any},
    {"/attn_pdrop", "", [](const Model&) -> Json { return 0.0; }, any},
    {"/scale_attn_weights", "", [](const Model&) -> Json { return true; }},
    {"/scale_attn_by_inverse_layer_idx", "", [](const Model&) -> Json { return false; }},
    {"/tie_word_embeddings", "", [](const Model&) -> Json { return true; }},
    {"/bos_token_id", "", [](const Model&) -> Json { return nullptr; }, any},
    {"/eos_token_id", "", [](const Model&) -> Json { return nullptr; }, any},
};

Json theta(const Model& model) {
  return model->rope_theta;
}

Json ffn(const Model& model) {
  return model->ffn;
}
Json expert_ffn(const Model& model) {
  return model->moe.ffn.value_or(model->ffn);
}
Json choices(const Model& model) {
  return model->moe.choices();
}
Json experts(const Model& model) {
  return model->moe.experts;
}

// Rows of LlamaForCausalLM and those that are built like it.
const Row kCommonConfig[] = {
    {"/vocab_size", "model.vocab", [](const Model& m) -> Json { return m.vocab; }},
    {"/max_position_embeddings", "model.sequence",
     [](const Model& m) -> Json { return m->sequence; }, at_least},
    {"/hidden_size", "model.hidden", [](const Model& m) -> Json { return m->hidden; }},
    {"/num_hidden_layers", "model.layers", [](const Model& m) -> Json { return m->layers; }},
    {"/num_attention_heads", "model.heads", [](const Model& m) -> Json { return m->heads; }},
    {"/num_key_value_heads", "model.kv_heads",
     [](const Model& m) -> Json { return m->kv_heads.value_or(m->heads); }},
    {"/head_dim", "model.heads", [](const Model& m) -> Json { return m->hidden / m->heads; },
     equal_or_null},
    {"/hidden_act", "", [](const Model&) -> Json { return "silu"; }},
    {"/rms_norm_eps", "model.norm_epsilon", [](const Model& m) -> Json { return m->norm_epsilon; }},
    // Version 4 has these two in the first place, version 5 in the second.
    {"/rope_theta", "model.rope_theta", theta},
    {"/rope_scaling", "", [](const Model&) -> Json { return nullptr; }},
    {"/rope_parameters/rope_theta", "model.rope_theta", theta},
    {"/rope_parameters/rope_type", "", [](const Model&) -> Json { return "default"; }},
    {"/attention_dropout", "", [](const Model&) -> Json { return 0.0; }, any},
    {"/tie_word_embeddings", "model.tied_head",
     [](const Model& m) -> Json { return m->tied_head == "on"; }},
    {"/bos_token_id", "", [](const Model&) -> Json { return nullptr; }, any},
    {"/eos_token_id", "", [](const Model&) -> Json { return nullptr; }, any},
};

const Row kLlamaConfig[] = {
    {"/architectures", "", [](const Model&) -> Json { return {"LlamaForCausalLM"}; }, any},
    {"/model_type", "", [](const Model&) -> Json { return "llama"; }},
    {"/intermediate_size", "model.ffn", ffn},
    {"/attention_bias", "", [](const Model&) -> Json { return false; }},
    {"/mlp_bias", "", [](const Model&) -> Json { return false; }},
};

// An attention window that no sequence of the model exceeds changes nothing.
bool wide_or_null(const Json& given, const Json& /*own*/, const Model& model) {
  return given.is_null() || (given.is_number() && given >= model->sequence);
}

const Row kMixtralConfig[] = {
    {"/architectures", "", [](const Model&) -> Json { return {"MixtralForCausalLM"}; }, any},
    {"/model_type", "", [](const Model&) -> Json { return "mixtral"; }},
    {"/intermediate_size", "model.moe.ffn", expert_ffn},
    {"/num_local_experts", "model.moe.experts", experts},
    {"/num_experts_per_tok", "model.moe.top_k", choices},
    {"/sliding_window", "model.sequence", [](const Model&) -> Json { return nullptr; },
     wide_or_null},
};

bool has_sigmoids(const Model& model) {
  return model->moe.score == "sigmoid";
}
const Row kDeepSeekConfig[] = {
    {"/architectures", "",
     [](const Model& m) -> Json {
       return {has_sigmoids(m) ? "Glm4MoeForCausalLM" : "DeepseekForCausalLM"};
     },
     any},
    {"/model_type", "model.moe.score",
     [](const Model& m) -> Json { return has_sigmoids(m) ? "glm4_moe" : "deepseek"; }},
    {"/intermediate_size", "model.ffn", ffn},
    {"/moe_intermediate_size", "model.moe.ffn", expert_ffn},
    {"/n_routed_experts", "model.moe.experts", experts},
    {"/n_shared_experts", "model.moe.shared_experts",
     [](const Model& m) -> Json { return m->moe.shared_experts; }},
    {"/num_experts_per_tok", "model.moe.top_k", choices},
    {"/first_k_dense_replace", "model.moe.first_dense",
     [](const Model& m) -> Json { return m->moe.first_dense; }},
    {"/moe_layer_freq", "model.moe.every", [](const Model& m) -> Json { return m->moe.every; }},
    {"/norm_topk_prob", "model.moe.normalize",
     [](const Model& m) -> Json { return m->moe.normalize != "off"; }},
    {"/scoring_func", "model.moe.score",
     [](const Model& m) -> Json { return has_sigmoids(m) ? "sigmoid" : "softmax"; }},
    {"/routed_scaling_factor", "model.moe.routed_scaling",
     [](const Model& m) -> Json { return m->moe.routed_scaling; }},
    {"/n_group", "", [](const Model&) -> Json { return 1; }},
    {"/topk_group", "", [](const Model&) -> Json { return 1; }},
    {"/attention_bias", "", [](const Model&) -> Json { return false; }},
    {"/use_qk_norm", "", [](const Model&) -> Json { return false; }},
    {"/partial_rotary_factor", "", [](const Model&) -> Json { return 1.0; }},
    {"/rope_parameters/partial_rotary_factor", "", [](const Model&) -> Json { return 1.0; }},
};

std::vector<Row> rows_of(const NameMap& names) {
  if (names.name == "gpt2") {
    return {std::begin(kGpt2Config), std::end(kGpt2Config)};
  }
  std::vector<Row> rows;
  const auto add = [&](std::span<const Row> more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  if (names.name == "llama") {
    add(kLlamaConfig);
  } else if (names.name == "mixtral") {
    add(kMixtralConfig);
  } else if (names.name == "deepseek") {
    add(kDeepSeekConfig);
  }
  if (!rows.empty()) {
    add(kCommonConfig);
  }
  return rows;
}

Json read_config(const std::string& path) {
  try {
    Json config = Json::parse(read_text_file(path, "model's configuration"));
    if (!config.is_object()) {
      fail(ExitCode::file, "{}: is {}, expected an object", path, config.type_name());
    }
    return config;
  } catch (const Json::exception& error) {
    fail(ExitCode::file, "{}: no JSON: {}", path, shown(error.what()));
  }
}

}  // namespace

void check_config(const std::string& folder, const NameMap& names, const Deck& deck,
                  int64_t vocab) {
  const std::string path = (fs::path(folder) / "config.json").string();
  const std::vector<Row> rows = rows_of(names);
  if (rows.empty() || !fs::exists(path)) {
    return;
  }
  const Json config = read_config(path);
  const Model model{deck, vocab};
  std::vector<std::string> differing;
  for (const Row& row : rows) {
    const Pointer pointer(row.theirs);
    const Json own = row.value(model);
    if (!config.contains(pointer) || row.fits(config[pointer], own, model)) {
      continue;
    }
    const std::string whose = *row.ours == '\0' ? "the model has" : fmt::format("{} is", row.ours);
    differing.push_back(fmt::format("{} is {}, but {} {}", row.theirs + 1,
                                    shown(config[pointer].dump()), whose, own.dump()));
  }
  if (!differing.empty()) {
    fail(ExitCode::usage, "{}: is of another model: {}", path, fmt::join(differing, "; "));
  }
}

std::string config_text(const NameMap& names, const Deck& deck, int64_t vocab) {
  const Model model{deck, vocab};
  Json config;
  for (const Row& row : rows_of(names)) {
    config[Pointer(row.theirs)] = row.value(model);
  }
  return config.empty() ? "" : config.dump(2) + "\n";
}

}  // namespace hidup
