// One wrong deck per kind of mistake: where it is reported, and what is said.
#include <gtest/gtest.h>

#include "deck_text.h"

namespace hidup {
namespace {

struct WrongLine {
  const char* name;
  int line;  // of kModel or kCluster, to be replaced by
  const char* text;
  const char* problem;  // all that is reported
};

void PrintTo(const WrongLine& wrong, std::ostream* out) {
  *out << wrong.name;
}

class WrongModel : public testing::TestWithParam<WrongLine> {};
class WrongCluster : public testing::TestWithParam<WrongLine> {};

TEST_P(WrongModel, IsReportedWithItsPlace) {
  const WrongLine& wrong = GetParam();
  EXPECT_EQ(problems_of(with_line(kModel, wrong.line, wrong.text)), wrong.problem);
}

TEST_P(WrongCluster, IsReportedWithItsPlace) {
  const WrongLine& wrong = GetParam();
  EXPECT_EQ(problems_of(kModel, with_line(kCluster, wrong.line, wrong.text)), wrong.problem);
}

const auto name_of = [](const auto& info) { return std::string(info.param.name); };

INSTANTIATE_TEST_SUITE_P(
    Structure, WrongModel,
    testing::Values(WrongLine{"UnknownKey", 2, "  layer: 2", "?"},
                    WrongLine{"KeyOfAnotherSection", 2, "  layers: 2\n  batch: 16", "?"},
                    WrongLine{"KeyThatDoesNotExistYet", 2, "  layers: 2\n  moe: {experts: 4}", "?"},
                    WrongLine{"UnknownSection", 9, "trian:", "?"},
                    WrongLine{"KeyAsSection", 1, "layers: 2\nmodel:", "?"},
                    WrongLine{"DottedKey", 1, "model.layers: 2\nmodel:", "?"},
                    WrongLine{"SectionOfTheOtherDeck", 6, "cluster: {}\ndata:", "?"},
                    WrongLine{"KeyTwice", 3, "  hidden: 128\n  layers: 3", "?"},
                    WrongLine{"SectionTwice", 9, "model: {layers: 1}\ntrain:", "?"},
                    WrongLine{"RequiredKeyMissing", 2, "", "?"},
                    WrongLine{"SectionIsAScalar", 6, "data: text\nx:", "?"},
                    WrongLine{"SectionIsEmpty", 6, "data:\nx:", "?"},
                    WrongLine{"ListAsKey", 2, "  layers: 2\n  ? [a, b]\n  : 1", "?"},
                    WrongLine{"NumberAsKey", 2, "  layers: 2\n  7: 1", "?"},
                    WrongLine{"Anchor", 2, "  layers: &two 2", "?"},
                    WrongLine{"Alias", 2, "  layers: &two 2\n  ffn: *two", "?"},
                    WrongLine{"MergeKey", 2, "  layers: 2\n  <<: {ffn: 3}", "?"},
                    WrongLine{"Tag", 2, "  layers: !!int 2", "?"},
                    WrongLine{"SecondDocument", 9, "---\ntrain:", "?"},
                    WrongLine{"TabInIndentation", 3, "\thidden: 128", "?"},
                    WrongLine{"WrongIndentation", 3, "   hidden: 128", "?"},
                    WrongLine{"ColonMissing", 3, "  hidden 128", "?"},
                    WrongLine{"OpenBracket", 8, "  path: [a, b", "?"},
                    WrongLine{"ControlCharacter", 2, "  layers: 2 # \x04", "?"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Values, WrongModel,
    testing::Values(WrongLine{"WordForAnInteger", 2, "  layers: two", "?"},
                    WrongLine{"TruthValueForAnInteger", 2, "  layers: true", "?"},
                    WrongLine{"FractionForAnInteger", 2, "  layers: 3.5", "?"},
                    WrongLine{"ExponentForAnInteger", 11, "  steps: 1e3", "?"},
                    WrongLine{"OctalInteger", 2, "  layers: 010", "?"},
                    WrongLine{"UnderscoresInAnInteger", 11, "  steps: 1_000", "?"},
                    WrongLine{"IntegerInQuotes", 2, "  layers: \"2\"", "?"},
                    WrongLine{"ListForAnInteger", 2, "  layers: [2]", "?"},
                    WrongLine{"MapForAnInteger", 2, "  layers: {a: 2}", "?"},
                    WrongLine{"EmptyValue", 2, "  layers:", "?"},
                    WrongLine{"NullValue", 2, "  layers: ~", "?"},
                    WrongLine{"ZeroLayers", 2, "  layers: 0", "?"},
                    WrongLine{"NegativeSize", 2, "  layers: -2", "?"},
                    WrongLine{"BeyondInt64", 11, "  steps: 99999999999999999999", "?"},
                    WrongLine{"SeedBelowZero", 11, "  steps: 300\n  seed: -1", "?"},
                    WrongLine{"WordForANumber", 11, "  steps: 300\n  lr: fast", "?"},
                    WrongLine{"NaN", 11, "  steps: 300\n  lr: nan", "?"},
                    WrongLine{"DottedInfinity", 11, "  steps: 300\n  lr: .inf", "?"},
                    WrongLine{"Infinity", 11, "  steps: 300\n  clip_norm: inf", "?"},
                    WrongLine{"BeyondDouble", 11, "  steps: 300\n  lr: 1e999", "?"},
                    WrongLine{"LearningRateOfZero", 11, "  steps: 300\n  lr: 0", "?"},
                    WrongLine{"DropoutOfOne", 5, "  sequence: 64\n  dropout: 1", "?"},
                    WrongLine{"BetaAboveOne", 11, "  steps: 300\n  beta2: 1.1", "?"},
                    WrongLine{"UnknownChoice", 11, "  steps: 300\n  optimizer: admw", "?"},
                    WrongLine{"TruthValueAsChoice", 11, "  steps: 300\n  schedule: off", "?"},
                    WrongLine{"FormatThatDoesNotExistYet", 5, "  sequence: 64\n  precision: bf16",
                              "?"},
                    WrongLine{"AutoWhereThereIsNone", 2, "  layers: auto", "?"},
                    WrongLine{"PathIsAMap", 8, "  path: {a: b}", "?"},
                    WrongLine{"PathInAListInAList", 8, "  path: [a, [b]]", "?"},
                    WrongLine{"EmptyPath", 8, "  path: ''", "?"},
                    WrongLine{"QuoteNeverClosed", 8, "  path: \"corpus.txt", "?"},
                    WrongLine{"QuantityWithoutUnit", 11, "  steps: 300\n  bucket: 4", "?"},
                    WrongLine{"QuantityOutOfRange", 11, "  steps: 300\n  bucket: 4B", "?"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Relations, WrongModel,
    testing::Values(
        WrongLine{"HiddenNotAMultipleOfHeads", 3, "  hidden: 130", "?"},
        WrongLine{"FewerHiddenThanHeads", 3, "  hidden: 3", "?"},
        WrongLine{"OddHeadsAndHidden", 3, "  hidden: 45\n  ffn: 8\n# heads: 4", "?"},
        WrongLine{"WarmupLongerThanTheRun", 11, "  steps: 300\n  warmup_steps: 500", "?"},
        WrongLine{"PathMissing", 8, "", "?"}, WrongLine{"PathListEmpty", 8, "  path: []", "?"},
        WrongLine{"PathForSyntheticData", 7, "  kind: synthetic", "?"},
        WrongLine{"WordsOfTokens", 7, "  kind: tokens\n  tokenizer: words", "?"},
        WrongLine{"MoreElementsThanCanBeCounted", 10, "  batch: 1000000000\n  seed: 3", "?"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Cluster, WrongCluster,
    testing::Values(
        WrongLine{"SectionOfTheOtherDeck", 7, "train: {batch: 4}", "?"},
        WrongLine{"UnknownKeyOfAGroup", 2, "  device: {kindd: cpu}", "?"},
        WrongLine{"UnknownGroup", 2, "  devices: {kind: cpu}", "?"},
        WrongLine{"MemoryInBandwidth", 2, "  device: {memory: 32GB/s}", "?"},
        WrongLine{"MemoryWithoutUnit", 2, "  device: {memory: 32}", "?"},
        WrongLine{"NegativeMemory", 2, "  device: {memory: -32GiB}", "?"},
        WrongLine{"MemoryBeyondInt64", 2, "  device: {memory: 1e30TiB}", "?"},
        WrongLine{"ThreadsOfZero", 2, "  device: {threads: 0}", "?"},
        WrongLine{"BackendThatDoesNotExistYet", 2, "  comm: {backend: nccl}", "?"},
        WrongLine{"HeartbeatOutOfRange", 2, "  comm: {heartbeat_timeout: 2h}", "?"},
        WrongLine{"UnknownKeyOfAnAxis", 6, "      sise: auto", "?"},
        WrongLine{"AxisWithoutName", 5, "    - size: 2\n#", "?"},
        WrongLine{"AxisIsAWord", 4, "    - node", "?"},
        WrongLine{"AxisOfSizeZero", 6, "      size: 0", "?"},
        WrongLine{"AxisNamedTwice", 5, "    - name: node", "?"},
        WrongLine{"AxisNameWithABlank", 5, "    - name: my gpu", "?"},
        WrongLine{"TwoAxesOfSizeAuto", 4, "    - {name: node, size: auto}", "?"},
        WrongLine{"LatencyInBytes", 4, "    - {name: node, size: 2, latency: 30B}", "?"},
        WrongLine{"BandwidthOfZero", 7, "      bandwidth: 0Gbps", "?"},
        WrongLine{"ListItemByNumber", 3, "  'mesh[0]': {name: x, size: 1}\n  mesh:", "?"}),
    name_of);

TEST(WrongDecks, MeshMustBeAListOfAxes) {
  EXPECT_EQ(problems_of(kModel, "cluster:\n  mesh: 4\n"), "?");
  EXPECT_EQ(problems_of(kModel, "cluster:\n  mesh: []\n"), "?");
  EXPECT_EQ(problems_of(kModel,
                        "cluster: {mesh: [{name: a, size: 1000000}, "
                        "{name: b, size: 1000000}]}"),
            "?");
}

TEST(WrongDecks, NothingToRead) {
  EXPECT_EQ(problems_of("", "# only a comment\n"), "?");
  EXPECT_EQ(problems_of("- model\n"), "?");
}

TEST(WrongDecks, SyntheticDataNeedsAVocabulary) {
  EXPECT_EQ(problems_of(with_line(with_line(kModel, 8, ""), 7, "  kind: synthetic")), "?");
}

TEST(WrongDecks, AllProblemsAreReportedInOrder) {
  const std::string model =
      "model:\n  heads: four\n  layer: 2\n  hidden: 130\n  sequence: 64\n"
      "data: {path: a}\ntrain: {steps: 10, batch: 0, warmup_steps: 20}\n";
  EXPECT_EQ(problems_of(model, "cluster: {mesh: [{size: x}]}", {"train.lr=-1", "bad"}), "?");
}

TEST(WrongDecks, Overrides) {
  const auto set = [](const std::string& assignment) {
    return problems_of(kModel, kCluster, {assignment});
  };
  EXPECT_EQ(set("model.layers"), "?");
  EXPECT_EQ(set("model.layers=x"), "?");
  EXPECT_EQ(set("model.layers="), "?");
  EXPECT_EQ(set("model.layers=[1"), "?");
  EXPECT_EQ(set("model.layers=*a"), "?");
  EXPECT_EQ(set("model.layer=3"), "?");
  EXPECT_EQ(set("modle.layers=3"), "?");
  EXPECT_EQ(set("layers=3"), "?");
  EXPECT_EQ(set("=3"), "?");
  EXPECT_EQ(set("model={layers: 3}"), "?");
  EXPECT_EQ(set("cluster.mesh.size=3"), "?");
  EXPECT_EQ(set("cluster.mesh[0].size=3"), "?");
  EXPECT_EQ(set("cluster.mesh[].size=3"), "?");
  EXPECT_EQ(set("cluster.mesh=[{name: a, size: 2, size: 3}]"), "?");
  EXPECT_EQ(set("model.hidden=130"), "?");
}

}  // namespace
}  // namespace hidup
