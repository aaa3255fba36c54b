// Foreign tensors as hidup's parameters: names, shapes, elements.
#include "interchange/match.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/check.h"
#include "files.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

using sample::file_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Graph graph_of(const std::vector<std::pair<std::string, Shape>>& parameters) {
  Graph graph("model");
  for (const auto& [name, shape] : parameters) {
    graph.add_parameter(name, shape, {}, true);
  }
  return graph;
}

// Returns some parameters of a Llama with 3 heads, one of them for keys and values, of 4 channels.
const Graph& llama() {
  static const Graph kGraph = graph_of({{"embedding.weight", {7, 12}},
                                        {"layers.0.attention.q.weight", {12, 1, 3, 4}},
                                        {"layers.0.attention.out.weight", {1, 3, 4, 12}},
                                        {"layers.10.norm1.weight", {12}},
                                        {"head.weight", {12, 7}}});
  return kGraph;
}
std::vector<SafeTensor> their_llama() {
  return {{.name = "model.embed_tokens.weight", .shape = {7, 12}},
          {.name = "model.layers.0.self_attn.q_proj.weight", .shape = {12, 12}},
          {.name = "model.layers.0.self_attn.o_proj.weight", .shape = {12, 12}},
          {.name = "model.layers.10.input_layernorm.weight", .shape = {12}},
          {.name = "lm_head.weight", .shape = {7, 12}}};
}

const std::vector<std::pair<std::string, Shape>> kGpt = {
    {"embedding.weight", {7, 12}},
    {"positions.weight", {5, 12}},
    {"layers.0.attention.qkv.weight", {12, 3, 3, 4}},
    {"layers.0.attention.qkv.bias", {3, 3, 4}}};
std::vector<SafeTensor> their_gpt(const std::string& prefix, int64_t positions = 5) {
  return {{.name = prefix + "wte.weight", .shape = {7, 12}},
          {.name = prefix + "wpe.weight", .shape = {positions, 12}},
          {.name = prefix + "h.0.attn.c_attn.weight", .shape = {12, 36}},
          {.name = prefix + "h.0.attn.c_attn.bias", .shape = {36}},
          {.name = prefix + "h.0.attn.bias", .shape = {1, 1, 5, 5}}};
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class Match : public testing::Test {
 protected:
  TensorFiles open(const std::vector<SafeTensor>& tensors) {
    return TensorFiles(folder_.write("x.safetensors", file_of(tensors)));
  }
  std::string refused(const std::vector<SafeTensor>& tensors, const char* names,
                      const Graph& graph) {
    const TensorFiles files = open(tensors);
    try {
      find_sources(files, *find_name_map(names), graph);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), HasSubstr(files.path()));
      return error.what();
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(Match, NamesAreGuessed) {
  EXPECT_EQ(guess_names(open(their_llama())).name, "llama");
  EXPECT_EQ(guess_names(open(their_gpt("transformer."))).name, "gpt2");
  EXPECT_EQ(guess_names(open(their_gpt(""))).name, "gpt2");
  EXPECT_EQ(guess_names(open({{.name = "embedding.weight", .shape = {7, 12}}})).name, "hidup");
}

TEST_F(Match, EveryParameterHasItsTensor) {
  EXPECT_EQ(refused(their_llama(), "llama", llama()), "");
  EXPECT_EQ(refused(their_gpt("transformer."), "gpt2", graph_of(kGpt)), "");
  EXPECT_EQ(refused(their_gpt(""), "gpt2", graph_of(kGpt)), "");
}

TEST_F(Match, WhatDiffersIsNamed) {
  std::vector<SafeTensor> tensors = their_llama();
  tensors[1].shape = {12, 4};
  tensors[3].name = "model.layers.11.input_layernorm.weight";
  EXPECT_THAT(refused(tensors, "llama", llama()),
              AllOf(HasSubstr("missing: model.layers.10.input_layernorm.weight;"),
                    HasSubstr("additional: model.layers.11.input_layernorm.weight;"),
                    HasSubstr("self_attn.q_proj.weight is [12, 4], but the model needs [12, 12]")));
  EXPECT_THAT(refused({}, "llama", llama()), HasSubstr("missing: model.embed_tokens.weight"));
  std::vector<std::pair<std::string, Shape>> many;
  for (int i = 0; i < 20; ++i) {
    many.emplace_back(fmt::format("layers.{}.norm1.weight", i), Shape{12});
  }
  EXPECT_THAT(refused({}, "llama", graph_of(many)), HasSubstr("and 12 more"));
}

// A mask, which is no parameter, may have any type.
TEST_F(Match, TypesThatNoParameterHas) {
  const auto refused_with = [&](const std::string& tensor) {
    const std::string header =
        "{\"" + tensor + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    const TensorFiles files(folder_.write("x.safetensors", file_of(header, "x")));
    try {
      find_sources(files, *find_name_map("gpt2"), graph_of({{"norm.weight", {1}}}));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused_with("ln_f.weight"), HasSubstr("ln_f.weight is not of type F32"));
  EXPECT_THAT(refused_with("h.0.attn.bias"),
              AllOf(HasSubstr("missing: transformer.ln_f.weight"), Not(HasSubstr("additional"))));
}

TEST_F(Match, MorePositionsThanNeeded) {
  EXPECT_EQ(refused(their_gpt("", 9), "gpt2", graph_of(kGpt)), "");
  EXPECT_THAT(refused(their_gpt("", 4), "gpt2", graph_of(kGpt)),
              HasSubstr("wpe.weight is [4, 12], but the model needs [5, 12]"));
}

TEST_F(Match, CopiesMustBeCopies) {
  std::vector<SafeTensor> tensors = their_gpt("transformer.");
  tensors.push_back({.name = "lm_head.weight", .shape = {7, 12}});
  const std::string content = file_of(tensors);
  const std::string path = folder_.write("x.safetensors", content);
  const auto check = [&] {
    find_sources(TensorFiles(path), *find_name_map("gpt2"), graph_of(kGpt));
  };
  EXPECT_THROW(check(), Error);
  const size_t bytes = 7 * 12 * sizeof(float);
  const size_t begin = static_cast<size_t>(SafetensorsFile(path).tensors().front().begin);
  folder_.write("x.safetensors",
                content.substr(0, content.size() - bytes) + content.substr(begin, bytes));
  EXPECT_NO_THROW(check());
}

TEST_F(Match, BoxesOfEveryLayout) {
  const TensorFiles files = open(their_llama());
  const auto sources = find_sources(files, *find_name_map("llama"), llama());
  for (const auto& [name, shape] : {std::pair<std::string, Shape>("embedding.weight", {7, 12}),
                                    {"layers.0.attention.q.weight", {12, 1, 3, 4}},
                                    {"layers.0.attention.out.weight", {1, 3, 4, 12}},
                                    {"head.weight", {12, 7}}}) {
    const TensorSource& source = sources.at(name);
    Region box{.dims = static_cast<int>(shape.size())};
    for (int d = 0; d < box.dims; ++d) {
      box.global[d] = shape[static_cast<size_t>(d)];
      box.start[d] = box.global[d] / 3;
      box.extent[d] = box.global[d] - box.start[d] - box.global[d] / 4;
    }
    const std::vector<float> found = floats(read_box(source, box));
    ASSERT_EQ(static_cast<int64_t>(found.size()), box.elements()) << name;
    const auto& [at, from] = source.parts.at(0);
    const int64_t columns = elements(shape) / from.rows;
    const int64_t first =
        (at.tensor->begin - files.tensors().begin()->second.file->tensors()[0].begin) / 4;
    for (int64_t i = 0; i < box.elements(); ++i) {
      const int64_t ours = box.global_index(i);
      const int64_t theirs = from.transposed ? ours % columns * from.rows + ours / columns : ours;
      EXPECT_EQ(found[static_cast<size_t>(i)], static_cast<float>(first + theirs)) << name;
    }
  }
}

TEST_F(Match, AsTheirsIsTheWayBack) {
  const TensorFiles files = open(their_llama());
  const auto sources = find_sources(files, *find_name_map("llama"), llama());
  const TensorSource& source = sources.at("layers.0.attention.out.weight");
  Region whole{.dims = 4, .extent = {1, 3, 4, 12}, .global = {1, 3, 4, 12}};
  const std::vector<float> back =
      floats(as_theirs(source.parts.at(0).theirs, read_box(source, whole), DType::f32));
  for (size_t i = 1; i < back.size(); ++i) {
    EXPECT_EQ(back[i], back[i - 1] + 1.0F);
  }
}

// Every expert is a tensor of theirs; a box has parts of several.
TEST_F(Match, BoxesOfExperts) {
  const std::string up = "layers.3.moe.experts.up.weight";
  const Graph graph = graph_of({{up, {3, 4, 5}}, {"layers.3.moe.router.weight", {4, 3}}});
  for (const auto& [names, router, pattern] :
       {std::tuple{"mixtral", "block_sparse_moe.gate", "block_sparse_moe.experts.{}.w3"},
        {"deepseek", "mlp.gate", "mlp.experts.{}.up_proj"}}) {
    std::vector<SafeTensor> tensors = {
        {.name = "model.embed_tokens.weight", .shape = {1}},
        {.name = fmt::format("model.layers.3.{}.weight", router), .shape = {3, 4}}};
    for (int expert = 0; expert < 3; ++expert) {
      tensors.push_back({.name = fmt::format("model.layers.3.{}.weight",
                                             fmt::format(fmt::runtime(pattern), expert)),
                         .shape = {5, 4}});
    }
    EXPECT_EQ(guess_names(open(tensors)).name, names);
    const TensorFiles files = open(tensors);
    const TensorSource source = find_sources(files, *find_name_map(names), graph).at(up);
    const Region box{.dims = 3, .start = {1, 1, 2}, .extent = {2, 3, 2}, .global = {3, 4, 5}};
    const std::vector<float> found = floats(read_box(source, box));
    const int64_t begin = files.tensors().begin()->second.file->tensors()[0].begin;
    ASSERT_EQ(found.size(), 12U);
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t index = box.global_index(i);
      const PlacedTensor& at = source.parts.at(static_cast<size_t>(index / 20)).at;
      const int64_t first = (at.tensor->begin - begin) / 4;
      EXPECT_EQ(found[static_cast<size_t>(i)],
                static_cast<float>(first + index % 5 * 4 + index % 20 / 5));
    }
    tensors.pop_back();
    EXPECT_THAT(refused(tensors, names, graph), HasSubstr("missing: model.layers.3."));
    EXPECT_EQ(their_tensors(*find_name_map(names), up, {3, 4, 5}).back().part, 2);
  }
}

TEST_F(Match, SeveralFilesOfAnIndex) {
  const std::vector<SafeTensor> tensors = their_llama();
  folder_.write("a.safetensors", file_of({tensors[0], tensors[1]}));
  folder_.write("b.safetensors", file_of({tensors[2], tensors[3], tensors[4]}));
  const auto index = [&](const std::string& second) {
    return folder_.write("model.safetensors.index.json",
                         "{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\","
                         "\"lm_head.weight\":\"" +
                             second + "\"}}");
  };
  const std::string path = index("b.safetensors");
  for (const std::string& given : {path, path.substr(0, path.rfind('/'))}) {
    const TensorFiles files(given);
    EXPECT_EQ(find_sources(files, *find_name_map("llama"), llama()).size(), 5);
  }
  index("../b.safetensors");
  EXPECT_THROW(TensorFiles{path}, Error);
  index("missing.safetensors");
  EXPECT_THROW(TensorFiles{path}, Error);
  folder_.write("b.safetensors", file_of({tensors[0]}));  // a second time
  index("b.safetensors");
  EXPECT_THROW(TensorFiles{path}, Error);
}

TEST_F(Match, AFolderWithoutTensors) {
  const std::string path = folder_.write("x", "");
  EXPECT_THROW(TensorFiles{path.substr(0, path.rfind('/'))}, Error);
}

}  // namespace
}  // namespace hidup
