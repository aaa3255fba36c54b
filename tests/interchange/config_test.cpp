// config.json: written files are accepted, and differences are named.
#include "interchange/config.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Deck deck_of(const std::string& family, const std::string& more = "") {
  const DeckSource source{.name = "deck",
                          .text = "model: {family: " + family +
                                  ", layers: 2, hidden: 24, heads: 6, sequence: 9, vocab: 211" +
                                  more +
                                  "}\ndata: {kind: synthetic}\n"
                                  "train: {batch: 1, steps: 1}\n"};
  return parse_decks(&source, nullptr, {});
}

class Config : public testing::Test {
 protected:
  // Returns the error for a deck's config with changes, against the deck; "" where it fits.
  std::string refused(const char* names, const Deck& deck, const nlohmann::json& changes) {
    const NameMap& map = *find_name_map(names);
    auto config = nlohmann::json::parse(config_text(map, deck, 211));
    config.merge_patch(changes);
    const std::string path = folder_.write("config.json", config.dump());
    try {
      check_config(path.substr(0, path.rfind('/')), map, deck, 211);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), HasSubstr(path));
      return error.what();
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(Config, WhatIsWrittenFits) {
  EXPECT_EQ(refused("gpt2", deck_of("gpt"), nlohmann::json::object()), "");
  EXPECT_EQ(refused("llama", deck_of("llama", ", kv_heads: 2"), nlohmann::json::object()), "");
}

const char* const kMixtralMoe = ", moe: {experts: 4, every: 1, bias: off}";
const char* const kDeepSeekMoe =
    ", moe: {experts: 4, every: 1, first_dense: 1, ffn: 7, shared_experts: 2, router: topk, top_k: "
    "3, "
    "score: sigmoid, routed_scaling: 2.5, balance_speed: 0, bias: off}";

TEST_F(Config, ModelsWithExperts) {
  const Deck mixtral = deck_of("llama", kMixtralMoe);
  const Deck deepseek = deck_of("llama", kDeepSeekMoe);
  EXPECT_EQ(refused("mixtral", mixtral, {{"sliding_window", 9}}), "");
  EXPECT_EQ(refused("deepseek", deepseek, nlohmann::json::object()), "");
  EXPECT_THAT(refused("mixtral", mixtral, {{"num_local_experts", 8}, {"sliding_window", 8}}),
              AllOf(HasSubstr("num_local_experts is 8, but model.moe.experts is 4"),
                    HasSubstr("sliding_window is 8, but model.sequence is")));
  EXPECT_THAT(refused("deepseek", deepseek,
                      {{"moe_intermediate_size", 8}, {"norm_topk_prob", false}, {"n_group", 2}}),
              AllOf(HasSubstr("moe_intermediate_size is 8, but model.moe.ffn is 7"),
                    HasSubstr("norm_topk_prob is false, but model.moe.normalize is true"),
                    HasSubstr("n_group is 2, but the model has 1")));
}

TEST_F(Config, KeysThatDifferAreNamed) {
  EXPECT_THAT(refused("gpt2", deck_of("gpt"), {{"n_layer", 3}, {"n_embd", 32}}),
              AllOf(HasSubstr("n_layer is 3, but model.layers is 2"),
                    HasSubstr("n_embd is 32, but model.hidden is 24")));
  EXPECT_THAT(refused("gpt2", deck_of("gpt"), {{"activation_function", "relu"}}),
              HasSubstr("activation_function is \"relu\", but the model has \"gelu_new\""));
  const Deck llama = deck_of("llama", ", kv_heads: 2, rope_theta: 5e5");
  EXPECT_THAT(refused("llama", llama, {{"num_key_value_heads", 6}}),
              HasSubstr("num_key_value_heads is 6, but model.kv_heads is 2"));
  EXPECT_THAT(refused("llama", llama, {{"rope_parameters", {{"rope_theta", 1e4}}}}),
              HasSubstr("rope_parameters/rope_theta is 10000.0, but model.rope_theta is 500000.0"));
  EXPECT_THAT(refused("llama", llama, {{"tie_word_embeddings", true}}),
              HasSubstr("tie_word_embeddings is true, but model.tied_head is false"));
  EXPECT_THAT(refused("llama", llama, {{"rope_scaling", {{"factor", 8}}}}),
              HasSubstr("rope_scaling is"));
}

TEST_F(Config, WhatMayDiffer) {
  EXPECT_EQ(refused("gpt2", deck_of("gpt"),
                    {{"n_positions", 1024}, {"attn_pdrop", 0.1}, {"bos_token_id", 5}}),
            "");
  EXPECT_THAT(refused("gpt2", deck_of("gpt"), {{"n_positions", 8}}),
              HasSubstr("n_positions is 8, but model.sequence is 9"));
  EXPECT_EQ(refused("gpt2", deck_of("gpt"), {{"task_specific_params", {{"x", 1}}}}), "");
  auto inner = nlohmann::json::object();
  inner["n_inner"] = nullptr;  // removes it: merge_patch
  EXPECT_EQ(refused("gpt2", deck_of("gpt", ", ffn: 40"), inner), "");
}

TEST_F(Config, NoFileAndNoJson) {
  const NameMap& map = *find_name_map("gpt2");
  const std::string path = folder_.write("config.json", "{");
  const std::string folder = path.substr(0, path.rfind('/'));
  EXPECT_THROW(check_config(folder, map, deck_of("gpt"), 211), Error);
  EXPECT_NO_THROW(check_config(folder + "/other", map, deck_of("gpt"), 211));
  EXPECT_EQ(config_text(*find_name_map("hidup"), deck_of("gpt"), 211), "");
}

}  // namespace
}  // namespace hidup
