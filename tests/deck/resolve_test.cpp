// Resolved decks as text, and the reference page.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "deck_text.h"

#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/train_deck.h"

namespace hidup {
namespace {

std::string resolved_twice(const Deck& deck) {
  return resolved_yaml(parse_resolved("deck", resolved_yaml(deck)));
}

TEST(ResolvedDeck, HasAllKeysWithTheirValues) {
  EXPECT_EQ(resolved_yaml(parse(kModel), DeckFile::model),
            "model:\n"
            "  family: bert\n"
            "  graph: none\n"
            "  layers: 2\n"
            "  hidden: 128\n"
            "  ffn: 512\n"
            "  heads: 4\n"
            "  norm_epsilon: 1e-05\n"
            "  sequence: 64\n"
            "  vocab: auto\n"
            "  dropout: 0\n"
            "  precision: fp32\n"
            "  moe:\n"
            "    experts: 0\n"
            "data:\n"
            "  kind: text\n"
            "  path: [\"/decks/corpus.txt\"]\n"
            "  tokenizer: bytes\n"
            "  validation: none\n"
            "train:\n"
            "  batch: 16\n"
            "  steps: 300\n"
            "  microbatches: auto\n"
            "  accumulate: auto\n"
            "  pipeline: auto\n"
            "  recompute: none\n"
            "  adapt: off\n"
            "  seed: 1\n"
            "  lr: 0.001\n"
            "  schedule: constant\n"
            "  warmup_steps: 0\n"
            "  min_lr_ratio: 0\n"
            "  optimizer: adam\n"
            "  beta1: 0.9\n"
            "  beta2: 0.999\n"
            "  epsilon: 1e-08\n"
            "  weight_decay: 0\n"
            "  no_decay: auto\n"
            "  clip_norm: 0\n"
            "  bucket: 4MiB\n"
            "  gradients: f32\n"
            "  overlap: on\n"
            "  timeline_every: 0\n"
            "  validate_every: 0\n"
            "  on_nan: stop\n"
            "  checkpoint:\n"
            "    every_steps: 0\n"
            "    every: none\n"
            "    keep: 3\n"
            "    folder: auto\n"
            "    blocking: off\n"
            "    on_error: warn\n"
            "search:\n"
            "  method: auto\n");
  EXPECT_EQ(resolved_yaml(parse(kModel), DeckFile::cluster),
            "cluster:\n"
            "  device:\n"
            "    kind: cpu\n"
            "    threads: auto\n"
            "    memory: 2GiB\n"
            "    flops: auto\n"
            "    flops_16bit: auto\n"
            "    efficiency: []\n"
            "    memory_bandwidth: auto\n"
            "    graph: auto\n"
            "    timed_every: 10\n"
            "    algorithms: heuristic\n"
            "    bf16: auto\n"
            "    reserved_multiprocessors: 0\n"
            "  mesh:\n"
            "    - name: \"node\"\n"
            "      size: 2\n"
            "      bandwidth: auto\n"
            "      latency: 30us\n"
            "      shared: 1\n"
            "      per_host: 1\n"
            "      host_bandwidth: auto\n"
            "      bandwidth_trace: []\n"
            "    - name: \"gpu\"\n"
            "      size: auto\n"
            "      bandwidth: 9.71Gbps\n"
            "      latency: auto\n"
            "      shared: 1\n"
            "      per_host: 1\n"
            "      host_bandwidth: auto\n"
            "      bandwidth_trace: []\n"
            "  order: auto\n"
            "  devices: []\n"
            "  comm:\n"
            "    backend: auto\n"
            "    register_buffers: off\n"
            "    max_ctas: 0\n"
            "    heartbeat_timeout: 5s\n"
            "    collective_timeout: 600s\n"
            "  profile: auto\n"
            "  profile_noise: 0\n"
            "  cost:\n"
            "    model: measured\n"
            "  emulate: off\n"
            "  emulate_dilation: 1\n");
}

TEST(ResolvedDeck, KeepsListsOfMaps) {
  const Deck deck = parse(
      kModel, kCluster,
      {"cluster.emulate=on",
       "cluster.mesh=[{name: node, size: 2, bandwidth: 1GB/s, shared: 2, bandwidth_trace: [{for: "
       "10ms, bandwidth: 1GB/s}, {for: 1.5s, bandwidth: 250MB/s}]}, {name: gpu, size: 2}]",
       "cluster.devices=[{flops: 1TFLOPS}, {count: 3, flops: 500GFLOPS, memory_bandwidth: "
       "30GB/s, pace_trace: [{for: 2s, pace: 0.5}]}]"});
  const std::string text = resolved_yaml(deck, DeckFile::cluster);
  const std::string lists =
      "      shared: 2\n"
      "      per_host: 1\n"
      "      host_bandwidth: auto\n"
      "      bandwidth_trace: [{for: 10ms, bandwidth: 1GB/s}, {for: 1.5s, bandwidth: 2Gbps}]\n"
      "    - name: \"gpu\"\n"
      "      size: 2\n"
      "      bandwidth: auto\n"
      "      latency: auto\n"
      "      shared: 1\n"
      "      per_host: 1\n"
      "      host_bandwidth: auto\n"
      "      bandwidth_trace: []\n"
      "  order: auto\n"
      "  devices:\n"
      "    - ranks: \"auto\"\n"
      "      host: \"auto\"\n"
      "      count: auto\n"
      "      kind: auto\n"
      "      threads: auto\n"
      "      memory: auto\n"
      "      flops: 1TFLOPS\n"
      "      flops_16bit: auto\n"
      "      memory_bandwidth: auto\n"
      "      pace_trace: []\n"
      "    - ranks: \"auto\"\n"
      "      host: \"auto\"\n"
      "      count: 3\n"
      "      kind: auto\n"
      "      threads: auto\n"
      "      memory: auto\n"
      "      flops: 0.5TFLOPS\n"
      "      flops_16bit: auto\n"
      "      memory_bandwidth: 30GB/s\n"
      "      pace_trace: [{for: 2s, pace: 0.5}]\n";
  EXPECT_NE(text.find(lists), std::string::npos) << text;
  EXPECT_EQ(resolved_twice(deck), resolved_yaml(deck));
}

TEST(ResolvedDeck, ParsesToTheSameValues) {
  const std::string mesh =
      "[{name: 'null', size: 2, bandwidth: 0.3GiB/s, latency: 0}, "
      "{name: no, size: auto, bandwidth: 33.3kbps, latency: 7.7ns}]";
  const std::vector<std::string> overrides = {
      "data.path=[\"a 'quoted' \\\"path\\\"\", 'back\\slash: #1', '*.txt']",
      "train.seed=9223372036854775807",
      "train.lr=0.1234567890123456",
      "train.bucket=5000001B",
      "cluster.comm.heartbeat_timeout=1.1min",
      "cluster.device.flops=15.7TFLOPS",
      "cluster.device.memory=0.1GiB",
      "cluster.device.flops_16bit=0.3PFLOPS",
      "cluster.device.efficiency=[{precision: bf16, size: 7, share: 0.1}, {share: 1}]",
      "cluster.mesh=" + mesh,
  };
  const Deck deck = parse(kModel, kCluster, overrides);
  const Deck again =
      parse(resolved_yaml(deck, DeckFile::model), resolved_yaml(deck, DeckFile::cluster));
  EXPECT_EQ(again.data->path, deck.data->path);
  EXPECT_EQ(again.train->seed, deck.train->seed);
  EXPECT_EQ(again.train->lr, deck.train->lr);
  EXPECT_EQ(again.train->bucket_bytes, deck.train->bucket_bytes);
  EXPECT_EQ(again.cluster->heartbeat_timeout_s, deck.cluster->heartbeat_timeout_s);
  EXPECT_EQ(again.cluster->device_flops, deck.cluster->device_flops);
  EXPECT_EQ(again.cluster->device_memory, deck.cluster->device_memory);
  EXPECT_EQ(again.cluster->flops_16bit, deck.cluster->flops_16bit);
  ASSERT_EQ(again.cluster->efficiency.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.cluster->efficiency[i].precision, deck.cluster->efficiency[i].precision);
    EXPECT_EQ(again.cluster->efficiency[i].size, deck.cluster->efficiency[i].size);
    EXPECT_EQ(again.cluster->efficiency[i].share, deck.cluster->efficiency[i].share);
  }
  ASSERT_EQ(again.cluster->mesh.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again.cluster->mesh[i].name, deck.cluster->mesh[i].name);
    EXPECT_EQ(again.cluster->mesh[i].size, deck.cluster->mesh[i].size);
    EXPECT_EQ(again.cluster->mesh[i].bandwidth, deck.cluster->mesh[i].bandwidth);
    EXPECT_EQ(again.cluster->mesh[i].latency, deck.cluster->mesh[i].latency);
  }
  EXPECT_EQ(resolved_twice(deck), resolved_yaml(deck));
}

TEST(ResolvedDeck, OfSyntheticDataHasNoPath) {
  const Deck deck =
      parse(with_line(kModel, 8, ""), kCluster, {"data.kind=synthetic", "model.vocab=100"});
  EXPECT_EQ(resolved_twice(deck), resolved_yaml(deck));
}

// A deck that an older build recorded lacks newer keys.
TEST(ResolvedDeck, KeysThatItLacksHaveTheirDefaults) {
  const std::string all = resolved_yaml(parse(kModel));
  std::string older = all;
  const size_t line = older.find("  norm_epsilon:");
  ASSERT_NE(line, std::string::npos);
  older.erase(line, older.find('\n', line) + 1 - line);
  EXPECT_EQ(resolved_yaml(parse_resolved("deck", older)), all);
  const std::string model = resolved_yaml(parse(kModel), DeckFile::model);
  EXPECT_EQ(resolved_yaml(parse_resolved("deck", model), DeckFile::model), model);
}

TEST(ResolvedDeck, KeepsValidationAndCheckpoints) {
  const Deck deck = parse(kModel, kCluster,
                          {"data.validation=[a.txt, '0.1']", "train.checkpoint.every=90s",
                           "train.checkpoint.folder='auto'"});
  const Deck again = parse(resolved_yaml(deck, DeckFile::model));
  EXPECT_EQ(again.data->validation.path, deck.data->validation.path);
  EXPECT_EQ(again.train->checkpoint.every_s, 90.0);
  EXPECT_EQ(again.train->checkpoint.folder, deck.train->checkpoint.folder);
  const Deck part = parse(kModel, kCluster, {"data.validation=0.1234567890123456"});
  EXPECT_EQ(parse(resolved_yaml(part, DeckFile::model)).data->validation.fraction,
            0.1234567890123456);
}

TEST(Reference, PageIsUpToDate) {
  std::ifstream file(HIDUP_INPUTS "/README.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == reference_markdown())
      << "inputs/README.md is out of date. Write it again with:\n"
         "    hidup validate --keys > inputs/README.md";
}

TEST(Profile, IsAutoNoneOrAFile) {
  const auto profile_of = [](const std::string& value) {
    return parse(kModel, "cluster:\n  profile: " + value + "\n").cluster->profile;
  };
  EXPECT_EQ(parse(kModel).cluster->profile, "auto");
  EXPECT_EQ(profile_of("auto"), "auto");
  EXPECT_EQ(profile_of("none"), "");
  EXPECT_EQ(profile_of("fast.yaml"), "/decks/fast.yaml");
  EXPECT_EQ(profile_of("\"auto\""), "/decks/auto");
}

}  // namespace
}  // namespace hidup
