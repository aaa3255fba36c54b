// One wrong line per kind of mistake, with the place and the text of its message.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "deck_text.h"

namespace hidup {
namespace {

struct WrongLine {
  const char* name;
  int line;  // the line of kModel or kCluster to replace
  const char* text;
  const char* problem;  // the whole message
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
                  "hidden, ffn, heads, kv_heads, rope_theta, norm_epsilon, tied_head, sequence, "
                  "vocab, dropout, precision, moe"},
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
        WrongLine{"SectionIsAScalar", 6, "data: text\nx:",
                  "m.yaml:6:7: data: expected keys with values, found text\n"
                  "m.yaml:7:1: unknown section x: the sections here are model, data, train, "
                  "search, cluster"},
        WrongLine{"SectionIsEmpty", 6, "data:\nx:",
                  "m.yaml:6:1: data: expected keys with values, found nothing\n"
                  "m.yaml:7:1: unknown section x: the sections here are model, data, train, "
                  "search, cluster"},
        WrongLine{"ListAsKey", 2, "  layers: 2\n  ? [a, b]\n  : 1",
                  "m.yaml:3:5: expected a key, found a list"},
        WrongLine{
            "NumberAsKey", 2, "  layers: 2\n  7: 1",
            "m.yaml:3:3: unknown key model.7: the keys here are family, graph, layers, hidden, "
            "ffn, heads, kv_heads, rope_theta, norm_epsilon, tied_head, sequence, vocab, "
            "dropout, precision, moe"},
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
        // In single precision these numbers become 1, 1, 0, 0 and 0.
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
        // This number is below the step of the 24 random bits that it is compared with.
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
            "m.yaml:1:1: train.batch is missing: expected an integer from 1 to 1000000000, or such "
            "as 2 x ranks\n"
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
        WrongLine{"ValidationBeyondAHalf", 8, "  path: a\n  validation: 0.6",
                  "m.yaml:9:15: data.validation: expected none, a number above 0 and at most 0.5, "
                  "or a file, a glob or a list of them, found 0.6"},
        WrongLine{"ValidationOfNothing", 8, "  path: a\n  validation: 0",
                  "m.yaml:9:15: data.validation: expected none, a number above 0 and at most 0.5, "
                  "or a file, a glob or a list of them, found 0"},
        WrongLine{"ValidationIsAMap", 8, "  path: a\n  validation: {part: 0.1}",
                  "m.yaml:9:15: data.validation: expected none, a number above 0 and at most 0.5, "
                  "or a file, a glob or a list of them, found keys with values"},
        WrongLine{
            "ValidationOfSyntheticData", 7, "  kind: synthetic\n  validation: 0.1\n#",
            "m.yaml:1:1: data.kind synthetic needs a number as model.vocab: there is no data "
            "to take it from\n"
            "m.yaml:8:15: data.kind synthetic has nothing to validate on: remove "
            "data.validation, or choose the kind text or tokens\n"
            "m.yaml:10:9: data.kind synthetic reads no files: remove data.path, or choose the "
            "kind text or tokens"},
        WrongLine{"NothingToValidateOn", 11, "  steps: 300\n  validate_every: 100",
                  "m.yaml:12:19: train.validate_every 100 needs data.validation: a part of the "
                  "data, or files"},
        WrongLine{"CheckpointsAllTheTime", 11, "  steps: 300\n  checkpoint: {every: 1ms}",
                  "m.yaml:12:23: train.checkpoint.every: expected a time such as 30us, from 0.1s "
                  "to 1000h, or none, found 1ms"},
        WrongLine{
            "CheckpointFolderIsAList", 11, "  steps: 300\n  checkpoint: {folder: [a]}",
            "m.yaml:12:24: train.checkpoint.folder: expected a folder, or auto, found a list"},
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
        WrongLine{"UnknownGroup", 2, "  devise: {kind: cpu}",
                  "c.yaml:2:3: unknown key cluster.devise: did you mean cluster.device?"},
        WrongLine{"DevicesAreNoList", 2, "  devices: {flops: 1TFLOPS}",
                  "c.yaml:2:12: cluster.devices: expected a list of devices, found keys with "
                  "values"},
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
                  "shared, per_host, host_bandwidth, bandwidth_trace, found node"},
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

}  // namespace
}  // namespace hidup
