// Decks that are wrong as a whole, bounds of numbers, and the form of messages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "deck_text.h"

namespace hidup {
namespace {

TEST(WrongDecks, MeshMustBeAListOfAxes) {
  EXPECT_EQ(problems_of(kModel, "cluster:\n  mesh: 4\n"),
            "c.yaml:2:9: cluster.mesh: expected a list of axes, found 4");
  EXPECT_EQ(problems_of(kModel, "cluster:\n  mesh: []\n"),
            "c.yaml:2:9: cluster.mesh is empty: expected at least one axis, such as {name: ranks, "
            "size: auto}");
  EXPECT_EQ(problems_of(kModel,
                        "cluster: {mesh: [{name: a, size: 1000000}, "
                        "{name: b, size: 1000000}]}"),
            "c.yaml:1:60: cluster.mesh: a x b = 1000000 x 1000000 = 1000000000000 ranks, more than "
            "2147483647");
}

TEST(WrongDecks, NothingToRead) {
  EXPECT_EQ(problems_of("", "# only a comment\n"),
            "m.yaml:1:1: expected the sections model, data, train, search of a model deck, found "
            "nothing\n"
            "c.yaml:1:1: expected the section cluster of a cluster deck, found nothing");
  EXPECT_EQ(
      problems_of("- model\n"),
      "m.yaml:1:1: expected the sections model, data, train, search of a model deck, found a list");
}

TEST(WrongDecks, SyntheticDataNeedsAVocabulary) {
  EXPECT_EQ(problems_of(with_line(with_line(kModel, 8, ""), 7, "  kind: synthetic")),
            "m.yaml:1:1: data.kind synthetic needs a number as model.vocab: there is no data to "
            "take it from");
}

TEST(WrongDecks, SinusoidalPositionsNeedAnEvenWidth) {
  const std::string heads = with_line(kModel, 4, "  heads: 3");
  EXPECT_EQ(problems_of(with_line(heads, 3, "  hidden: 45")),
            "m.yaml:3:11: model.hidden 45 is odd, but sinusoidal positions are pairs of a sine and "
            "a cosine: take 42 or 48");
  EXPECT_EQ(problems_of(with_line(heads, 3, "  hidden: 45\n  family: gpt")), "");
}

TEST(WrongDecks, MoreElementsThanCanBeCounted) {
  const std::string model = with_line(kModel, 5, "  sequence: 1000000");
  EXPECT_EQ(problems_of(with_line(model, 10, "  batch: 1000000000")),
            "m.yaml:10:10: train.batch x model.heads x model.sequence x model.sequence = "
            "1000000000 x 4 x 1000000 x 1000000 = 4e+21, more than 2^56 = 7.21e+16");
}

TEST(WrongDecks, AllProblemsAreReportedInOrder) {
  const std::string model =
      "model:\n  heads: four\n  layer: 2\n  hidden: 130\n  sequence: 64\n"
      "data: {path: a}\ntrain: {steps: 10, batch: 0, warmup_steps: 20}\n";
  EXPECT_EQ(
      problems_of(model, "cluster: {mesh: [{size: x}]}", {"train.lr=-1", "bad"}),
      "m.yaml:2:10: model.heads: expected an integer from 1 to 10000, found four\n"
      "m.yaml:3:3: unknown key model.layer: did you mean model.layers?\n"
      "m.yaml:7:27: train.batch: expected an integer from 1 to 1000000000, or such as 2 x ranks, "
      "found 0\n"
      "m.yaml:7:44: train.warmup_steps 20 is more than train.steps 10\n"
      "c.yaml:1:18: cluster.mesh[0].name is missing: expected a word\n"
      "c.yaml:1:25: cluster.mesh[0].size: expected an integer from 1 to 1000000, or auto, found x\n"
      "--set train.lr=-1: train.lr: expected a number from 1e-30 to 1000, found -1\n"
      "--set bad: expected section.key=value");
}

TEST(WrongDecks, RatesOfNoMachine) {
  const auto refused = [](const std::string& assignment) {
    return problems_of(kModel, kCluster, {assignment}).find(": expected ") != std::string::npos;
  };
  for (const char* rate : {"1e-320GFLOPS", "0.5MFLOPS", "1001PFLOPS", "1e302MFLOPS"}) {
    EXPECT_TRUE(refused(fmt::format("cluster.device.flops={}", rate))) << rate;
  }
  for (const char* rate : {"1e-320GB/s", "1bps", "1001TB/s", "1e296TB/s", "1e5000GB/s"}) {
    EXPECT_TRUE(refused(fmt::format("cluster.device.memory_bandwidth={}", rate))) << rate;
    EXPECT_TRUE(refused(fmt::format("cluster.mesh=[{{name: a, size: 2, bandwidth: {}}}]", rate)))
        << rate;
  }
  EXPECT_TRUE(refused("cluster.mesh=[{name: a, size: 2, latency: 3601s}]"));
  EXPECT_FALSE(refused("cluster.device.flops=1MFLOPS"));
  EXPECT_FALSE(refused("cluster.device.flops=1000PFLOPS"));
  EXPECT_FALSE(refused("cluster.mesh=[{name: a, size: 2, bandwidth: 8kbps, latency: 1h}]"));
}

TEST(WrongDecks, EfficiencyOfNoMachine) {
  const auto problems = [](const std::string& items) {
    const std::string key = "cluster.device.efficiency=" + items;
    std::string found = problems_of(kModel, kCluster, {key});
    const std::string place = "--set " + key + ": ";
    return found.starts_with(place) ? found.substr(place.size()) : found;
  };
  EXPECT_EQ(problems("[{share: 0.5}, {precision: fp32, size: 10, share: 0.25}, "
                     "{precision: fp32, size: 20, share: 1}]"),
            "");
  EXPECT_EQ(problems("0.5"),
            "cluster.device.efficiency: expected a list of shares, such as [{share: 0.8}], found "
            "0.5");
  EXPECT_EQ(problems("[{share: 0}]"),
            "cluster.device.efficiency[0].share: expected a number above 0 and at most 1, found 0");
  EXPECT_EQ(problems("[{precision: bf15, share: 1}]"),
            "cluster.device.efficiency[0].precision: expected one of any, fp32, bf16, fp16, found "
            "bf15: did you mean bf16?");
  EXPECT_EQ(problems("[{size: 4}]"),
            "cluster.device.efficiency[0].share is missing: expected a number above 0 and at most "
            "1");
  EXPECT_EQ(problems("[{share: 0.5}, {size: 4, share: 0.5}]"),
            "cluster.device.efficiency[1].size: two items are for products of precision any, so "
            "both need a size");
  EXPECT_EQ(problems("[{size: 4, share: 0.5}, {size: 4, share: 0.5}]"),
            "cluster.device.efficiency[1].size: two items are for products of precision any and "
            "size 4");
  EXPECT_EQ(problems("[{size: 10, share: 0.1}, {size: 20, share: 0.9}]"),
            "cluster.device.efficiency[1].share 0.9, with which products of precision any of size "
            "20 take less time than those of size 10: expected a share below 0.8");
  EXPECT_EQ(problems("[{size: 20, share: 0.9}, {size: 10, share: 0.1}]"),
            "cluster.device.efficiency[1].share 0.1, with which products of precision any of size "
            "20 take less time than those of size 10: expected a share above 0.113");
}

TEST(WrongDecks, MeshOfManyAxes) {
  std::string axes = "{name: a0, size: 2}";
  for (int i = 1; i < 8; ++i) {
    axes += fmt::format(", {{name: a{}, size: 2}}", i);
  }
  EXPECT_EQ(problems_of(kModel, "cluster: {mesh: [" + axes + "]}"), "");
  EXPECT_EQ(problems_of(kModel, "cluster: {mesh: [" + axes + ", {name: b, size: 2}]}"),
            "c.yaml:1:17: cluster.mesh: expected at most 8 axes, found 9");
}

TEST(WrongDecks, ControlCharactersAreShownEscaped) {
  const std::string problems =
      problems_of(with_line(kModel, 2, "  \"lay\\aers\\n\": 2\n  layers: \"\\a2\""), kCluster,
                  {"model.\x1b[0m=3"});
  EXPECT_EQ(
      problems,
      "m.yaml:2:3: unknown key model.lay\\x07ers\\n: the keys here are family, graph, layers, "
      "hidden, ffn, heads, kv_heads, rope_theta, norm_epsilon, tied_head, sequence, vocab, "
      "dropout, precision, moe\n"
      "m.yaml:3:11: model.layers: expected an integer from 1 to 10000, found \"\\x072\": a "
      "number has no quotes\n"
      "--set model.\\x1b[0m=3: unknown key model.\\x1b[0m");
}

TEST(WrongDecks, LongTextIsCut) {
  const std::string key(300, 'x');
  const std::string problems = problems_of(with_line(kModel, 2, "  layers: 2\n  " + key + ": 1"),
                                           kCluster, {"model." + key + "=1"});
  const std::string cut = key.substr(0, 200) + "...";
  EXPECT_EQ(problems.find("m.yaml:3:3: unknown key model." + cut + ": the keys here are"), 0U)
      << problems;
  EXPECT_LT(problems.size(), 1000U) << problems;
}

TEST(WrongDecks, OfManyProblemsTheFirstAreReported) {
  std::string model = "model:\n";
  for (int i = 0; i < 10000; ++i) {
    model += fmt::format("  key{}: 1\n", i);
  }
  const std::string problems = problems_of(model);
  EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'), 20);
  EXPECT_TRUE(problems.ends_with("\nand 9987 problem(s) more")) << problems;
}

TEST(WrongDecks, DeepNesting) {
  const auto nested = [](int levels) {
    return "cluster: {mesh: " + std::string(static_cast<size_t>(levels - 2), '[') +
           std::string(static_cast<size_t>(levels - 2), ']') + "}";
  };
  const std::string too_deep = "c.yaml:1:79: more than 64 levels of lists and maps";
  EXPECT_NE(problems_of(kModel, nested(64)), too_deep);
  EXPECT_EQ(problems_of(kModel, nested(65)), too_deep);
  EXPECT_EQ(problems_of(kModel, nested(100000)), too_deep);
  EXPECT_NE(problems_of(kModel, std::string(100000, '[')), "");
}

TEST(WrongDecks, Overrides) {
  const auto set = [](const std::string& assignment) {
    return problems_of(kModel, kCluster, {assignment});
  };
  EXPECT_EQ(set("model.layers"), "--set model.layers: expected section.key=value");
  EXPECT_EQ(set("model.layers=x"),
            "--set model.layers=x: model.layers: expected an integer from 1 to 10000, found x");
  EXPECT_EQ(
      set("model.layers="),
      "--set model.layers=: model.layers: expected an integer from 1 to 10000, found nothing");
  EXPECT_EQ(set("model.layers=[1"),
            "--set model.layers=[1: malformed YAML here or just before (indentation, colons, "
            "quotes, brackets): end of sequence flow not found");
  EXPECT_EQ(set("model.layers=*a"),
            "--set model.layers=*a: malformed YAML here or just before (indentation, colons, "
            "quotes, brackets): the referenced anchor is not defined");
  EXPECT_EQ(set("train.gradients=bf61"),
            "--set train.gradients=bf61: train.gradients: expected one of f32, bf16, model, found "
            "bf61: did you mean bf16?");
  EXPECT_EQ(set("train.gradient=bf16"),
            "--set train.gradient=bf16: unknown key train.gradient: did you mean train.gradients?");
  EXPECT_EQ(set("model.layer=3"),
            "--set model.layer=3: unknown key model.layer: did you mean model.layers?");
  EXPECT_EQ(set("modle.layers=3"),
            "--set modle.layers=3: unknown key modle.layers: did you mean model.layers?");
  EXPECT_EQ(set("layers=3"), "--set layers=3: unknown key layers: did you mean model.layers?");
  EXPECT_EQ(set("=3"), "--set =3: expected section.key=value");
  EXPECT_EQ(set("model={layers: 3}"),
            "--set model={layers: 3}: model is not a key but a group of them: family, graph, "
            "layers, hidden, ffn, heads, kv_heads, rope_theta, norm_epsilon, tied_head, sequence, "
            "vocab, dropout, precision, moe");
  EXPECT_EQ(set("cluster.mesh[0].size=3"),
            "--set cluster.mesh[0].size=3: cluster.mesh is a list: set all of it, as in "
            "cluster.mesh=[{name: ranks, size: auto}], or a key of one of its items, as in "
            "cluster.mesh.ranks.size=4");
  EXPECT_EQ(set("cluster.mesh[].size=3"),
            "--set cluster.mesh[].size=3: cluster.mesh is a list: set all of it, as in "
            "cluster.mesh=[{name: ranks, size: auto}], or a key of one of its items, as in "
            "cluster.mesh.ranks.size=4");
  EXPECT_EQ(
      set("cluster.mesh=[{name: a, size: 2, size: 3}]"),
      "--set cluster.mesh=[{name: a, size: 2, size: 3}]: cluster.mesh[0].size is given twice");
  EXPECT_EQ(set("model.hidden=130"),
            "--set model.hidden=130: model.hidden 130 = 4 heads x 32 + 2: take 128 or 132");
}

TEST(WrongDecks, OverridesOfOneAxis) {
  const auto set = [](const std::string& assignment, const std::string& cluster = kCluster) {
    return problems_of(kModel, cluster, {assignment});
  };
  EXPECT_EQ(set("cluster.mesh.nod.size=3"),
            "--set cluster.mesh.nod.size=3: cluster.mesh.nod.size: cluster.mesh has no axis nod: "
            "did you mean node? There are node, gpu");
  EXPECT_EQ(set("cluster.mesh.size=3"),
            "--set cluster.mesh.size=3: cluster.mesh.size: cluster.mesh has no axis size: "
            "there are node, gpu");
  EXPECT_EQ(
      set("cluster.mesh.node.bandwith=1Gbps"),
      "--set cluster.mesh.node.bandwith=1Gbps: cluster.mesh.node.bandwith: an axis has no key "
      "bandwith: did you mean bandwidth? There are name, size, bandwidth, latency, "
      "shared, per_host, host_bandwidth, bandwidth_trace");
  EXPECT_EQ(
      set("cluster.mesh.node=3"),
      "--set cluster.mesh.node=3: cluster.mesh.node is an axis: set one of its keys name, size, "
      "bandwidth, latency, shared, per_host, host_bandwidth, bandwidth_trace");
  EXPECT_EQ(set("cluster.mesh.node.size=0"),
            "--set cluster.mesh.node.size=0: cluster.mesh[0].size: expected an integer from 1 to "
            "1000000, or auto, found 0");
  EXPECT_EQ(set("cluster.mesh.node.size=auto"),
            "c.yaml:6:13: the axes node and gpu both have the size auto: only one may");
  EXPECT_EQ(set("cluster.mesh.node.size=3", "cluster: {mesh: 3}"),
            "c.yaml:1:17: cluster.mesh: expected a list of axes, found 3")
      << "and nothing of its axes";
}

}  // namespace
}  // namespace hidup
