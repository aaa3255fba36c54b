// One wrong deck per kind of mistake: where it is reported, and what is said.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <ostream>

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
    testing::Values(
        WrongLine{"UnknownKey", 2, "  layer: 2",
                  "m.yaml:2:3: unknown key model.layer: did you mean model.layers?"},
        WrongLine{"KeyOfAnotherSection", 2, "  layers: 2\n  batch: 16",
                  "m.yaml:3:3: unknown key model.batch: did you mean train.batch?"},
        WrongLine{"KeyThatDoesNotExistYet", 2, "  layers: 2\n  teacher: big",
                  "m.yaml:3:3: unknown key model.teacher: the keys here are family, graph, layers, "
                  "hidden, ffn, heads, sequence, vocab, dropout, precision, moe"},
        WrongLine{"UnknownSection", 9,
                  "trian:", "m.yaml:9:1: unknown section trian: did you mean train?"},
        WrongLine{"KeyAsSection", 1, "layers: 2\nmodel:",
                  "m.yaml:1:1: unknown section layers: did you mean model.layers?"},
        WrongLine{
            "DottedKey", 1, "model.layers: 2\nmodel:",
            "m.yaml:1:1: unknown key model.layers: in a deck keys are nested, not joined by dots"},
        WrongLine{"SectionOfTheOtherDeck", 6, "cluster: {}\ndata:",
                  "m.yaml:6:1: section cluster belongs in the cluster deck, not in the model deck"},
        WrongLine{"KeyTwice", 3, "  hidden: 128\n  layers: 3",
                  "m.yaml:4:3: model.layers is given twice, first in line 2"},
        WrongLine{"SectionTwice", 9, "model: {layers: 1}\ntrain:",
                  "m.yaml:9:1: model is given twice, first in line 1"},
        WrongLine{"RequiredKeyMissing", 2, "",
                  "m.yaml:1:1: model.layers is missing: expected an integer from 1 to 10000"},
        WrongLine{
            "SectionIsAScalar", 6, "data: text\nx:",
            "m.yaml:6:7: data: expected keys with values, found text\n"
            "m.yaml:7:1: unknown section x: the sections here are model, data, train, cluster"},
        WrongLine{
            "SectionIsEmpty", 6, "data:\nx:",
            "m.yaml:6:1: data: expected keys with values, found nothing\n"
            "m.yaml:7:1: unknown section x: the sections here are model, data, train, cluster"},
        WrongLine{"ListAsKey", 2, "  layers: 2\n  ? [a, b]\n  : 1",
                  "m.yaml:3:5: expected a key, found a list"},
        WrongLine{
            "NumberAsKey", 2, "  layers: 2\n  7: 1",
            "m.yaml:3:3: unknown key model.7: the keys here are family, graph, layers, hidden, "
            "ffn, heads, sequence, vocab, dropout, precision, moe"},
        WrongLine{"Anchor", 2, "  layers: &two 2",
                  "m.yaml:2:11: anchors (&name) are not supported: remove it"},
        WrongLine{"Alias", 2, "  layers: &two 2\n  ffn: *two",
                  "m.yaml:2:11: anchors (&name) are not supported: remove it\n"
                  "m.yaml:3:8: aliases (*name) are not supported: write the value out"},
        WrongLine{"MergeKey", 2, "  layers: 2\n  <<: {ffn: 3}",
                  "m.yaml:3:3: merge keys (<<) are not supported: write the keys out"},
        WrongLine{"Tag", 2, "  layers: !!int 2",
                  "m.yaml:2:11: tags (such as !!int) are not supported: remove it"},
        WrongLine{"SecondDocument", 9, "---\ntrain:",
                  "m.yaml:9:1: the document ends before this: a second document, or a stray sign"},
        WrongLine{"TabInIndentation", 3, "\thidden: 128",
                  "m.yaml:3:1: a tab in the indentation: YAML wants blanks"},
        WrongLine{"WrongIndentation", 3, "   hidden: 128",
                  "m.yaml:3:10: malformed YAML here or just before (indentation, colons, quotes, "
                  "brackets): illegal map value"},
        WrongLine{"ColonMissing", 3, "  hidden 128",
                  "m.yaml:4:8: malformed YAML here or just before (indentation, colons, quotes, "
                  "brackets): illegal map value"},
        WrongLine{"OpenBracket", 8, "  path: [a, b",
                  "m.yaml:9:6: malformed YAML here or just before (indentation, colons, quotes, "
                  "brackets): end of sequence flow not found"},
        WrongLine{"ControlCharacter", 2, "  layers: 2 # \x04",
                  "m.yaml:2:15: a control character (byte 0x04): this is not text"},
        WrongLine{"NotUtf8", 2, "  layers: 2 # \xc3\xa9 \xff",
                  "m.yaml:2:18: byte 0xff: this is not text in UTF-8"},
        WrongLine{"HalfOfACharacter", 2, "  layers: 2 # \xe2\x82",
                  "m.yaml:2:15: byte 0xe2: this is not text in UTF-8"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Values, WrongModel,
    testing::Values(
        WrongLine{"WordForAnInteger", 2, "  layers: two",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found two"},
        WrongLine{"TruthValueForAnInteger", 2, "  layers: true",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found true"},
        WrongLine{"FractionForAnInteger", 2, "  layers: 3.5",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found 3.5"},
        WrongLine{"ExponentForAnInteger", 11, "  steps: 1e3",
                  "m.yaml:11:10: train.steps: expected an integer from 1 to 1000000000000, found "
                  "1e3: write 1000"},
        WrongLine{
            "OctalInteger", 2, "  layers: 010",
            "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found 010: write 10"},
        WrongLine{
            "UnderscoresInAnInteger", 11, "  steps: 1_000",
            "m.yaml:11:10: train.steps: expected an integer from 1 to 1000000000000, found 1_000"},
        WrongLine{"IntegerInQuotes", 2, "  layers: \"2\"",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found \"2\": a "
                  "number has no quotes"},
        WrongLine{"ListForAnInteger", 2, "  layers: [2]",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found a list"},
        WrongLine{"MapForAnInteger", 2, "  layers: {a: 2}",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found keys with "
                  "values"},
        WrongLine{"EmptyValue", 2, "  layers:",
                  "m.yaml:2:3: model.layers: expected an integer from 1 to 10000, found nothing"},
        WrongLine{"NullValue", 2, "  layers: ~",
                  "m.yaml:2:3: model.layers: expected an integer from 1 to 10000, found nothing"},
        WrongLine{"ZeroLayers", 2, "  layers: 0",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found 0"},
        WrongLine{"NegativeSize", 2, "  layers: -2",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found -2"},
        WrongLine{"BeyondInt64", 11, "  steps: 99999999999999999999",
                  "m.yaml:11:10: train.steps: expected an integer from 1 to 1000000000000, found "
                  "99999999999999999999, which does not fit into 64 bits"},
        WrongLine{"SeedBelowZero", 11, "  steps: 300\n  seed: -1",
                  "m.yaml:12:9: train.seed: expected an integer, at least 0, found -1"},
        WrongLine{"WordForANumber", 11, "  steps: 300\n  lr: fast",
                  "m.yaml:12:7: train.lr: expected a number from 1e-30 to 1000, found fast"},
        WrongLine{"NaN", 11, "  steps: 300\n  lr: nan",
                  "m.yaml:12:7: train.lr: expected a number from 1e-30 to 1000, found nan"},
        WrongLine{"DottedInfinity", 11, "  steps: 300\n  lr: .inf",
                  "m.yaml:12:7: train.lr: expected a number from 1e-30 to 1000, found .inf"},
        WrongLine{"Infinity", 11, "  steps: 300\n  clip_norm: inf",
                  "m.yaml:12:14: train.clip_norm: expected a number, 0 or from 1e-10 to 1e+18, "
                  "found inf"},
        WrongLine{"BeyondDouble", 11, "  steps: 300\n  lr: 1e999",
                  "m.yaml:12:7: train.lr: expected a number from 1e-30 to 1000, found 1e999, "
                  "which a double cannot hold"},
        WrongLine{"LearningRateOfZero", 11, "  steps: 300\n  lr: 0",
                  "m.yaml:12:7: train.lr: expected a number from 1e-30 to 1000, found 0"},
        WrongLine{
            "DropoutOfOne", 5, "  sequence: 64\n  dropout: 1",
            "m.yaml:6:12: model.dropout: expected a number, 0 or from 1e-06 to 0.999, found 1"},
        WrongLine{"BetaAboveOne", 11, "  steps: 300\n  beta2: 1.1",
                  "m.yaml:12:10: train.beta2: expected a number from 0 to 0.999999, found 1.1"},
        // In single precision these are 1, 1, 0, 0 and 0.
        WrongLine{"DropoutNearOne", 5, "  sequence: 64\n  dropout: 0.99999999999",
                  "m.yaml:6:12: model.dropout: expected a number, 0 or from 1e-06 to 0.999, found "
                  "0.99999999999"},
        WrongLine{"BetaNearOne", 11, "  steps: 300\n  beta1: 0.99999999999",
                  "m.yaml:12:10: train.beta1: expected a number from 0 to 0.999999, found "
                  "0.99999999999"},
        WrongLine{"ClipNormNearZero", 11, "  steps: 300\n  clip_norm: 1e-300",
                  "m.yaml:12:14: train.clip_norm: expected a number, 0 or from 1e-10 to 1e+18, "
                  "found 1e-300"},
        WrongLine{"EpsilonNearZero", 11, "  steps: 300\n  epsilon: 1e-320",
                  "m.yaml:12:12: train.epsilon: expected a number from 1e-30 to 1, found 1e-320"},
        WrongLine{"LearningRateNearZero", 11, "  steps: 300\n  lr: 1e-300",
                  "m.yaml:12:7: train.lr: expected a number from 1e-30 to 1000, found 1e-300"},
        // Fewer than the steps of the 24 random bits with which it is compared.
        WrongLine{"DropoutNearZero", 5, "  sequence: 64\n  dropout: 1e-9",
                  "m.yaml:6:12: model.dropout: expected a number, 0 or from 1e-06 to 0.999, found "
                  "1e-9"},
        WrongLine{"UnknownChoice", 11, "  steps: 300\n  optimizer: admw",
                  "m.yaml:12:14: train.optimizer: expected one of adam, adamw, found admw: did you "
                  "mean adamw?"},
        WrongLine{
            "TruthValueAsChoice", 11, "  steps: 300\n  schedule: off",
            "m.yaml:12:13: train.schedule: expected one of constant, linear, cosine, found off"},
        WrongLine{"FormatThatDoesNotExistYet", 5, "  sequence: 64\n  precision: fp8",
                  "m.yaml:6:14: model.precision: expected one of fp32, bf16, fp16, found fp8"},
        WrongLine{"AutoWhereThereIsNone", 2, "  layers: auto",
                  "m.yaml:2:11: model.layers: expected an integer from 1 to 10000, found auto"},
        WrongLine{"PathIsAMap", 8, "  path: {a: b}",
                  "m.yaml:8:9: data.path: expected a file, a glob or a list of them, found keys "
                  "with values"},
        WrongLine{
            "PathInAListInAList", 8, "  path: [a, [b]]",
            "m.yaml:8:13: data.path: expected a file, a glob or a list of them, found a list"},
        WrongLine{"EmptyPath", 8, "  path: ''",
                  "m.yaml:8:9: data.path: expected a file, a glob or a list of them, found \"\", "
                  "which is empty or has a blank at its ends: is a quote missing?"},
        WrongLine{
            "QuoteNeverClosed", 8, "  path: \"corpus.txt",
            "m.yaml:1:1: train.batch is missing: expected an integer from 1 to 1000000000\n"
            "m.yaml:1:1: train.steps is missing: expected an integer from 1 to 1000000000000\n"
            "m.yaml:8:9: data.path: expected a file, a glob or a list of them, found \"corpus.txt "
            "train: batch: 16 steps: 300 \", which is empty or has a blank at its ends: is a quote "
            "missing?"},
        WrongLine{"QuantityWithoutUnit", 11, "  steps: 300\n  bucket: 4",
                  "m.yaml:12:11: train.bucket: expected an amount of memory such as 32GiB, from "
                  "1KiB to 1TiB, found 4, which has no unit"},
        WrongLine{"QuantityOutOfRange", 11, "  steps: 300\n  bucket: 4B",
                  "m.yaml:12:11: train.bucket: expected an amount of memory such as 32GiB, from "
                  "1KiB to 1TiB, found 4B"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Relations, WrongModel,
    testing::Values(
        WrongLine{"HiddenNotAMultipleOfHeads", 3, "  hidden: 130",
                  "m.yaml:3:11: model.hidden 130 = 4 heads x 32 + 2: take 128 or 132"},
        WrongLine{"FewerHiddenThanHeads", 3, "  hidden: 3",
                  "m.yaml:3:11: model.hidden 3 = 4 heads x 0 + 3: take 4"},
        WrongLine{"WarmupLongerThanTheRun", 11, "  steps: 300\n  warmup_steps: 500",
                  "m.yaml:12:17: train.warmup_steps 500 is more than train.steps 300"},
        WrongLine{"MoreMicrobatchesThanSequences", 11, "  steps: 300\n  microbatches: 20",
                  "m.yaml:12:17: train.microbatches 20 is more than train.batch 16: a part has a "
                  "sequence at least"},
        WrongLine{"MoreMicrobatchesThanCanBePlanned", 11, "  steps: 300\n  microbatches: 257",
                  "m.yaml:12:17: train.microbatches: expected an integer from 1 to 256, or auto, "
                  "found 257"},
        WrongLine{"PathMissing", 8, "",
                  "m.yaml:6:1: data.kind text needs data.path: a file, a glob or a list of them"},
        WrongLine{"PathListEmpty", 8, "  path: []",
                  "m.yaml:8:9: data.kind text needs data.path: a file, a glob or a list of them"},
        WrongLine{"PathForSyntheticData", 7, "  kind: synthetic",
                  "m.yaml:1:1: data.kind synthetic needs a number as model.vocab: there is no data "
                  "to take it from\n"
                  "m.yaml:8:9: data.kind synthetic reads no files: remove data.path, or choose the "
                  "kind text or tokens"},
        WrongLine{"WordsOfTokens", 7, "  kind: tokens\n  tokenizer: words",
                  "m.yaml:8:14: data.tokenizer words is for data.kind text, not tokens"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Cluster, WrongCluster,
    testing::Values(
        WrongLine{"SectionOfTheOtherDeck", 7, "train: {batch: 4}",
                  "c.yaml:7:1: section train belongs in the model deck, not in the cluster deck"},
        WrongLine{
            "UnknownKeyOfAGroup", 2, "  device: {kindd: cpu}",
            "c.yaml:2:12: unknown key cluster.device.kindd: did you mean cluster.device.kind?"},
        WrongLine{"UnknownGroup", 2, "  devices: {kind: cpu}",
                  "c.yaml:2:3: unknown key cluster.devices: did you mean cluster.device?"},
        WrongLine{"MemoryInBandwidth", 2, "  device: {memory: 32GB/s}",
                  "c.yaml:2:20: cluster.device.memory: expected an amount of memory such as 32GiB, "
                  "from 1MiB to 1024TiB, or auto, found 32GB/s"},
        WrongLine{"MemoryWithoutUnit", 2, "  device: {memory: 32}",
                  "c.yaml:2:20: cluster.device.memory: expected an amount of memory such as 32GiB, "
                  "from 1MiB to 1024TiB, or auto, found 32, which has no unit"},
        WrongLine{"NegativeMemory", 2, "  device: {memory: -32GiB}",
                  "c.yaml:2:20: cluster.device.memory: expected an amount of memory such as 32GiB, "
                  "from 1MiB to 1024TiB, or auto, found -32GiB"},
        WrongLine{"MemoryBeyondInt64", 2, "  device: {memory: 1e30TiB}",
                  "c.yaml:2:20: cluster.device.memory: expected an amount of memory such as 32GiB, "
                  "from 1MiB to 1024TiB, or auto, found 1e30TiB"},
        WrongLine{"ThreadsOfZero", 2, "  device: {threads: 0}",
                  "c.yaml:2:21: cluster.device.threads: expected an integer from 1 to 4096, or "
                  "auto, found 0"},
        WrongLine{"NoSuchBackend", 2, "  comm: {backend: gloo}",
                  "c.yaml:2:19: cluster.comm.backend: expected one of auto, mpi, nccl, found gloo"},
        WrongLine{"MaxCtasOutOfRange", 2, "  comm: {max_ctas: 65}",
                  "c.yaml:2:20: cluster.comm.max_ctas: expected an integer from 0 to 64, found 65"},
        WrongLine{"HeartbeatOutOfRange", 2, "  comm: {heartbeat_timeout: 2h}",
                  "c.yaml:2:29: cluster.comm.heartbeat_timeout: expected a time such as 30us, from "
                  "1s to 1h, found 2h"},
        WrongLine{
            "UnknownKeyOfAnAxis", 6, "      sise: auto",
            "c.yaml:6:7: unknown key cluster.mesh[1].sise: did you mean cluster.mesh[1].size?"},
        WrongLine{"AxisWithoutName", 5, "    - size: 2\n#",
                  "c.yaml:5:7: cluster.mesh[1].name is missing: expected a word\n"
                  "c.yaml:7:7: cluster.mesh[1].size is given twice, first in line 5"},
        WrongLine{"AxisIsAWord", 4, "    - node",
                  "c.yaml:4:7: cluster.mesh[0]: expected the keys name, size, bandwidth, latency, "
                  "found node"},
        WrongLine{"AxisOfSizeZero", 6, "      size: 0",
                  "c.yaml:6:13: cluster.mesh[1].size: expected an integer from 1 to 1000000, or "
                  "auto, found 0"},
        WrongLine{"AxisNamedTwice", 5, "    - name: node", "c.yaml:5:13: two axes are named node"},
        WrongLine{
            "AxisNameWithABlank", 5, "    - name: my gpu",
            "c.yaml:5:13: axis name \"my gpu\": expected letters, digits, _ and -, first a letter"},
        WrongLine{"TwoAxesOfSizeAuto", 4, "    - {name: node, size: auto}",
                  "c.yaml:6:13: the axes node and gpu both have the size auto: only one may"},
        WrongLine{"LatencyInBytes", 4, "    - {name: node, size: 2, latency: 30B}",
                  "c.yaml:4:38: cluster.mesh[0].latency: expected a time such as 30us, from 0 to "
                  "1h, or auto, found 30B"},
        WrongLine{"BandwidthOfZero", 7, "      bandwidth: 0Gbps",
                  "c.yaml:7:18: cluster.mesh[1].bandwidth: expected a bandwidth such as 9.71Gbps "
                  "or 1.2GB/s, from 8kbps to 1000TB/s, or auto, found 0Gbps"},
        WrongLine{"ListItemByNumber", 3, "  'mesh[0]': {name: x, size: 1}\n  mesh:",
                  "c.yaml:3:3: unknown key cluster.mesh[0]: in a deck keys are nested, not joined "
                  "by dots"}),
    name_of);

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
            "m.yaml:1:1: expected the sections model, data, train of a model deck, found nothing\n"
            "c.yaml:1:1: expected the section cluster of a cluster deck, found nothing");
  EXPECT_EQ(problems_of("- model\n"),
            "m.yaml:1:1: expected the sections model, data, train of a model deck, found a list");
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
      "m.yaml:7:27: train.batch: expected an integer from 1 to 1000000000, found 0\n"
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
      "hidden, ffn, heads, sequence, vocab, dropout, precision, moe\n"
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
  EXPECT_EQ(set("model.layer=3"),
            "--set model.layer=3: unknown key model.layer: did you mean model.layers?");
  EXPECT_EQ(set("modle.layers=3"),
            "--set modle.layers=3: unknown key modle.layers: did you mean model.layers?");
  EXPECT_EQ(set("layers=3"), "--set layers=3: unknown key layers: did you mean model.layers?");
  EXPECT_EQ(set("=3"), "--set =3: expected section.key=value");
  EXPECT_EQ(set("model={layers: 3}"),
            "--set model={layers: 3}: model is not a key but a group of them: family, graph, "
            "layers, hidden, ffn, heads, sequence, vocab, dropout, precision, moe");
  EXPECT_EQ(set("cluster.mesh.size=3"),
            "--set cluster.mesh.size=3: cluster.mesh is a list: set all of it, as in "
            "cluster.mesh=[{name: ranks, size: auto}]");
  EXPECT_EQ(set("cluster.mesh[0].size=3"),
            "--set cluster.mesh[0].size=3: cluster.mesh is a list: set all of it, as in "
            "cluster.mesh=[{name: ranks, size: auto}]");
  EXPECT_EQ(set("cluster.mesh[].size=3"),
            "--set cluster.mesh[].size=3: cluster.mesh is a list: set all of it, as in "
            "cluster.mesh=[{name: ranks, size: auto}]");
  EXPECT_EQ(
      set("cluster.mesh=[{name: a, size: 2, size: 3}]"),
      "--set cluster.mesh=[{name: a, size: 2, size: 3}]: cluster.mesh[0].size is given twice");
  EXPECT_EQ(set("model.hidden=130"),
            "--set model.hidden=130: model.hidden 130 = 4 heads x 32 + 2: take 128 or 132");
}

}  // namespace
}  // namespace hidup
