#include "interchange/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
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

const Row kLlamaConfig[] = {
    {"/architectures", "", [](const Model&) -> Json { return {"LlamaForCausalLM"}; }, any},
    {"/model_type", "", [](const Model&) -> Json { return "llama"; }},
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
    {"/intermediate_size", "model.ffn", [](const Model& m) -> Json { return m->ffn; }},
    {"/hidden_act", "", [](const Model&) -> Json { return "silu"; }},
    {"/rms_norm_eps", "model.norm_epsilon", [](const Model& m) -> Json { return m->norm_epsilon; }},
    // Version 4 has these two in the first place, version 5 in the second.
    {"/rope_theta", "model.rope_theta", theta},
    {"/rope_scaling", "", [](const Model&) -> Json { return nullptr; }},
    {"/rope_parameters/rope_theta", "model.rope_theta", theta},
    {"/rope_parameters/rope_type", "", [](const Model&) -> Json { return "default"; }},
    {"/attention_bias", "", [](const Model&) -> Json { return false; }},
    {"/mlp_bias", "", [](const Model&) -> Json { return false; }},
    {"/attention_dropout", "", [](const Model&) -> Json { return 0.0; }, any},
    {"/tie_word_embeddings", "model.tied_head",
     [](const Model& m) -> Json { return m->tied_head == "on"; }},
    {"/bos_token_id", "", [](const Model&) -> Json { return nullptr; }, any},
    {"/eos_token_id", "", [](const Model&) -> Json { return nullptr; }, any},
};

std::span<const Row> rows_of(const NameMap& names) {
  if (names.name == "gpt2") {
    return kGpt2Config;
  }
  return names.name == "llama" ? std::span<const Row>(kLlamaConfig) : std::span<const Row>();
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
  const std::span<const Row> rows = rows_of(names);
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
