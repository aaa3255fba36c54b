// Keys that are allowed only together with others: keys of experts, and keys that a graph replaces.
#include <gtest/gtest.h>

#include <filesystem>

#include "deck_text.h"

#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"

namespace hidup {
namespace {

// Returns kModel with another line in its model section, as line 6.
std::string model_with(const std::string& line) {
  return with_line(kModel, 5, "  sequence: 64\n" + line);
}

// A deck with a graph, without the keys that the graph replaces.
const std::string kGraph =
    "model:\n"                // 1
    "  graph: net/a.graph\n"  // 2
    "  sequence: 64\n"        // 3
    "data:\n"                 // 4
    "  path: corpus.txt\n"    // 5
    "train:\n"                // 6
    "  batch: 16\n"           // 7
    "  steps: 300\n";         // 8

TEST(Experts, DefaultsAndValues) {
  const Deck dense = parse(kModel);
  EXPECT_EQ(dense.model->moe.experts, 0);
  const Deck deck = parse(model_with("  moe: {experts: 8}"));
  EXPECT_EQ(deck.model->moe.experts, 8);
  EXPECT_EQ(deck.model->moe.every, 2);
  EXPECT_EQ(deck.model->moe.router, "top2");
  EXPECT_EQ(deck.model->moe.capacity_factor, 1.25);
  const Deck other =
      parse(model_with("  moe: {experts: 3, every: 1, router: hash, capacity_factor: 0.5}"));
  EXPECT_EQ(other.model->moe.experts, 3);
  EXPECT_EQ(other.model->moe.every, 1);
  EXPECT_EQ(other.model->moe.router, "hash");
  EXPECT_EQ(other.model->moe.capacity_factor, 0.5);
  EXPECT_EQ(parse(kModel, kCluster, {"model.moe.every=1", "model.moe.experts=4"}).model->moe.every,
            1);
}

TEST(Experts, ValuesOutOfRange) {
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 100001}")),
            "m.yaml:6:18: model.moe.experts: expected an integer from 0 to 100000, or such as 2 x "
            "ranks, found 100001");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, every: 0}")),
            "m.yaml:6:28: model.moe.every: expected an integer from 1 to 10000, found 0");
  EXPECT_EQ(
      problems_of(model_with("  moe: {experts: 4, router: top3}")),
      "m.yaml:6:29: model.moe.router: expected one of top1, top2, topk, hash, trace, "
      "log-normal, balanced, hot-experts, hot-rank, spread, ragged, idle, moving, burst, found "
      "top3: did you mean top1?");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, load: loads.txt}")),
            "m.yaml:6:27: model.moe.load is about experts without capacity, but with "
            "model.moe.capacity_factor every expert has its slots: set model.moe.capacity_factor: "
            "none");
  EXPECT_EQ(
      problems_of(model_with("  moe: {experts: 4, capacity_factor: none, slack: 0.5}")),
      "m.yaml:6:51: model.moe.slack: expected a number from 1 to 1000000, or none, found 0.5");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, capacity_factor: 0}")),
            "m.yaml:6:38: model.moe.capacity_factor: expected a number above 0 and at most "
            "1000000, or none, found 0");
  EXPECT_EQ(problems_of(model_with("  moe: 4")),
            "m.yaml:6:8: model.moe: expected keys with values, found 4");
  EXPECT_EQ(problems_of(model_with("  moe: {expert: 4, every: 1}")),
            "m.yaml:6:9: unknown key model.moe.expert: did you mean model.moe.experts?");
}

TEST(Experts, TheRouterTop2NeedsTwo) {
  const std::string problem =
      ": model.moe.experts 1, but model.moe.router top2 chooses two experts: take more experts, "
      "or top1";
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 1}")), "m.yaml:6:18" + problem);
  EXPECT_EQ(problems_of(model_with("  moe: {router: top2, experts: 1}")), "m.yaml:6:32" + problem);
  EXPECT_EQ(problems_of(model_with("  moe: {router: top1, experts: 1}")), "");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 2}")), "");
}

TEST(Experts, TheirNumberPerToken) {
  const auto choices = [](const std::string& moe) {
    return parse(model_with("  moe: {experts: 4, " + moe + "}")).model->moe.choices();
  };
  EXPECT_EQ(choices("router: top1"), 1);
  EXPECT_EQ(choices("router: hash"), 1);
  EXPECT_EQ(choices("router: top2"), 2);
  EXPECT_EQ(choices("router: spread"), 2);
  EXPECT_EQ(choices("router: spread, top_k: 4"), 4);
  EXPECT_EQ(choices("router: top1, top_k: 1"), 1);
  EXPECT_EQ(choices("router: hash, top_k: 3"), 3);
  EXPECT_EQ(choices("router: topk, top_k: 4"), 4);
  EXPECT_EQ(choices("router: topk, top_k: 1"), 1);
  EXPECT_EQ(
      problems_of(model_with("  moe: {experts: 4, router: topk}")),
      "m.yaml:6:29: model.moe.router topk needs model.moe.top_k: how many experts it chooses");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, router: topk, top_k: 5}")),
            "m.yaml:6:42: model.moe.top_k 5 is more than model.moe.experts 4");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, router: hash, top_k: 5}")),
            "m.yaml:6:42: model.moe.top_k 5 is more than model.moe.experts 4");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, top_k: 3}")),
            "m.yaml:6:28: model.moe.top_k 3, but model.moe.router top2 chooses two: take topk");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, router: top1, top_k: 2}")),
            "m.yaml:6:42: model.moe.top_k 2, but model.moe.router top1 chooses one expert: take "
            "topk");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, top_k: 0}")),
            "m.yaml:6:28: model.moe.top_k: expected an integer from 1 to 100000, or auto, found 0");
}

TEST(Experts, TheLossesOfTheirRouters) {
  const MoeDeck none = parse(model_with("  moe: {experts: 4}")).model->moe;
  EXPECT_EQ(none.balance_loss, 0.0);
  EXPECT_EQ(none.z_loss, 0.0);
  EXPECT_EQ(none.normalize, "on");
  EXPECT_EQ(none.bias, "on");
  const MoeDeck moe = parse(model_with("  moe: {experts: 4, balance_loss: 0.01, balance: gshard, "
                                       "z_loss: 1e-3, normalize: off, bias: off}"))
                          .model->moe;
  EXPECT_EQ(moe.balance_loss, 0.01);
  EXPECT_EQ(moe.balance, "gshard");
  EXPECT_EQ(moe.z_loss, 1e-3);
  EXPECT_EQ(moe.normalize, "off");
  EXPECT_EQ(moe.bias, "off");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, balance: gshard}")),
            "m.yaml:6:30: model.moe.balance says what the balance loss is, but "
            "model.moe.balance_loss is missing or 0");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, router: hash, balance_loss: 1}")),
            "m.yaml:6:49: model.moe.balance_loss has no use with model.moe.router hash: no logits "
            "decide where tokens go");
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, router: hash, z_loss: 1}")), "");
}

TEST(Experts, WorkloadsChooseThem) {
  const std::string moe = "  moe: {experts: 4, router: ";
  for (const char* router : {"balanced", "hot-experts", "hot-rank", "spread", "ragged", "idle",
                             "moving", "burst", "log-normal", "hash"}) {
    EXPECT_EQ(problems_of(model_with(moe + router + "}")), "") << router;
  }
  EXPECT_TRUE(parse(model_with(moe + "topk, top_k: 3}")).model->moe.learns());
  EXPECT_FALSE(parse(model_with(moe + "idle}")).model->moe.learns());
  EXPECT_EQ(problems_of(model_with(moe + "idle, balance_loss: 1}")),
            "m.yaml:6:49: model.moe.balance_loss has no use with model.moe.router idle: no logits "
            "decide where tokens go");
  EXPECT_EQ(parse(model_with(moe + "log-normal, sigma: 0.5}")).model->moe.sigma, 0.5);
  EXPECT_EQ(problems_of(model_with(moe + "idle, sigma: 0.5}")),
            "m.yaml:6:42: model.moe.sigma is about the router log-normal only");
}

TEST(Experts, ATraceHasTheirLoads) {
  const std::string moe = "  moe: {experts: 4, router: ";
  EXPECT_EQ(problems_of(model_with(moe + "trace}")),
            "m.yaml:7:1: model.moe.router trace needs data.trace: a file of recorded loads");
  const auto with_trace = [&](const std::string& router) {
    return with_line(model_with(moe + router + "}"), 9, "  path: a.txt\n  trace: loads.txt");
  };
  EXPECT_EQ(problems_of(with_trace("trace")), "");
  EXPECT_TRUE(parse(with_trace("trace")).data->trace.ends_with("/loads.txt"));
  EXPECT_EQ(
      problems_of(with_trace("idle")),
      "m.yaml:10:10: data.trace has the loads of the router trace: set model.moe.router: trace");
}

TEST(Experts, SomeBlockHasThem) {
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, every: 3}")),
            "m.yaml:6:28: model.moe.every 3 is more than model.layers 2: no block has experts");
  EXPECT_EQ(problems_of(with_line(model_with("  moe: {experts: 4}"), 2, "  layers: 1")),
            "m.yaml:6:3: model.moe.every 2 is more than model.layers 1: no block has experts");
  EXPECT_EQ(problems_of(with_line(kModel, 2, "  layers: 1")), "");
}

TEST(Experts, DenseBlocksComeFirst) {
  const std::string moe = "  moe: {experts: 4, every: 1, first_dense: ";
  EXPECT_EQ(problems_of(model_with(moe + "1}")), "");
  EXPECT_EQ(problems_of(model_with(moe + "2}")),
            "m.yaml:6:44: model.moe.first_dense 2 leaves no block with experts: the last one is "
            "number 2");
}

TEST(Experts, BiasesOfTheChoice) {
  EXPECT_FALSE(parse(model_with("  moe: {experts: 4}")).model->moe.balance_speed);
  EXPECT_EQ(parse(model_with("  moe: {experts: 4, balance_speed: 0}")).model->moe.balance_speed, 0);
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 4, router: hash, balance_speed: 0.1}")),
            "m.yaml:6:50: model.moe.balance_speed has no use with model.moe.router hash: no logits "
            "decide where tokens go");
}

TEST(Experts, TheirKeysNeedThem) {
  const std::string missing = " is about experts, but model.moe.experts is missing or 0";
  EXPECT_EQ(problems_of(model_with("  moe: {router: top1, every: 1}")),
            "m.yaml:6:17: model.moe.router" + missing + "\nm.yaml:6:30: model.moe.every" + missing);
  EXPECT_EQ(problems_of(model_with("  moe: {experts: 0, capacity_factor: 2}")),
            "m.yaml:6:38: model.moe.capacity_factor" + missing);
  EXPECT_EQ(problems_of(kModel, kCluster, {"model.moe.every=1"}),
            "--set model.moe.every=1: model.moe.every" + missing);
  // A deck with a wrong number of experts has no error about missing ones.
  EXPECT_EQ(problems_of(model_with("  moe: {experts: four, every: 1}")),
            "m.yaml:6:18: model.moe.experts: expected an integer from 0 to 100000, or such as 2 x "
            "ranks, found four");
}

TEST(Experts, MoreElementsThanCanBeCounted) {
  EXPECT_EQ(
      problems_of(with_line(model_with("  moe: {experts: 100000}"), 11, "  batch: 1000000000")),
      "m.yaml:11:10: train.batch x model.moe.experts x model.sequence x model.hidden = "
      "1000000000 x 100000 x 64 x 128 = 8.19e+17, more than 2^56 = 7.21e+16");
}

TEST(Graph, TakesThePlaceOfAFamily) {
  EXPECT_EQ(parse(kModel).model->graph, "");
  EXPECT_EQ(parse(model_with("  graph: none")).model->graph, "");
  const Deck deck = parse(kGraph);
  EXPECT_EQ(deck.model->graph, "/decks/net/a.graph");
  EXPECT_EQ(deck.model->sequence, 64);
  EXPECT_EQ(deck.train->batch, 16);
  EXPECT_EQ(deck.model->vocab, std::nullopt);
  EXPECT_EQ(parse(with_line(kGraph, 2, "  graph: /b/../a.graph")).model->graph, "/a.graph");
  EXPECT_EQ(parse(with_line(kGraph, 2, "  graph: \"none\"")).model->graph, "/decks/none");
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(parse(kGraph, kCluster, {"model.graph=b.graph"}).model->graph, here + "/b.graph");
}

TEST(Graph, RefusesWhatItGives) {
  struct Given {
    const char* text;
    const char* problem;
  };
  for (const auto& [text, problem] : {
           Given{"family: bert", "m.yaml:4:11: model.family"},
           Given{"layers: 2", "m.yaml:4:11: model.layers"},
           Given{"hidden: 8", "m.yaml:4:11: model.hidden"},
           Given{"ffn: 8", "m.yaml:4:8: model.ffn"},
           Given{"heads: 2", "m.yaml:4:10: model.heads"},
           Given{"dropout: 0.5", "m.yaml:4:12: model.dropout"},
           Given{"moe: {experts: 4}", "m.yaml:4:18: model.moe.experts"},
           Given{"moe: {experts: 0}", "m.yaml:4:18: model.moe.experts"},
           Given{"moe: {every: 3}", "m.yaml:4:16: model.moe.every"},
           Given{"moe: {router: top1}", "m.yaml:4:17: model.moe.router"},
           Given{"moe: {capacity_factor: 2}", "m.yaml:4:26: model.moe.capacity_factor"},
           Given{"moe: {top_k: 2}", "m.yaml:4:16: model.moe.top_k"},
           Given{"moe: {z_loss: 1}", "m.yaml:4:17: model.moe.z_loss"},
       }) {
    EXPECT_EQ(problems_of(with_line(kGraph, 3, std::string("  sequence: 64\n  ") + text)),
              std::string(problem) + " is given by the graph of model.graph: remove it");
  }
  EXPECT_EQ(problems_of(kGraph, kCluster, {"model.layers=2"}),
            "--set model.layers=2: model.layers is given by the graph of model.graph: remove it");
}

TEST(Graph, NeedsTheSequenceAndTheBatch) {
  EXPECT_EQ(problems_of(with_line(with_line(kGraph, 7, ""), 3, "")),
            "m.yaml:1:1: model.sequence is missing: expected an integer from 1 to 10000000\n"
            "m.yaml:5:1: train.batch is missing: expected an integer from 1 to 1000000000, or such "
            "as 2 x ranks");
}

TEST(Graph, ThatIsNoPath) {
  EXPECT_EQ(problems_of(with_line(kGraph, 2, "  graph: [a]")),
            "m.yaml:2:10: model.graph: expected a file, or none, found a list");
  EXPECT_EQ(problems_of(with_line(kGraph, 2, "  graph:")),
            "m.yaml:2:3: model.graph: expected a file, or none, found nothing");
  EXPECT_EQ(problems_of(with_line(kGraph, 2, "  graph: none\n  hidden: 8\n  heads: 2")),
            "m.yaml:1:1: model.layers is missing: expected an integer from 1 to 10000");
  // A misspelt key is no reason for errors about missing sizes.
  EXPECT_EQ(problems_of(with_line(kGraph, 2, "  grpah: a.graph")),
            "m.yaml:2:3: unknown key model.grpah: did you mean model.graph?");
}

TEST(ResolvedDeck, HasOnlyKeysWithAPlace) {
  const auto model_of = [](const Deck& deck) {
    const std::string text = resolved_yaml(deck, DeckFile::model);
    return text.substr(0, text.find("data:"));
  };
  EXPECT_EQ(model_of(parse(model_with("  moe: {experts: 4, router: top1}"))),
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
            "    experts: 4\n"
            "    every: 2\n"
            "    first_dense: 0\n"
            "    ffn: auto\n"
            "    shared_experts: 0\n"
            "    router: top1\n"
            "    top_k: auto\n"
            "    score: softmax\n"
            "    normalize: on\n"
            "    routed_scaling: 1\n"
            "    capacity_factor: 1.25\n"
            "    warn_imbalance: 4\n"
            "    balance_loss: 0\n"
            "    z_loss: 0\n"
            "    balance_speed: none\n"
            "    bias: on\n");
  const Deck graph = parse(kGraph);
  EXPECT_EQ(model_of(graph),
            "model:\n"
            "  graph: \"/decks/net/a.graph\"\n"
            "  sequence: 64\n"
            "  vocab: auto\n"
            "  precision: fp32\n");
  EXPECT_EQ(parse(resolved_yaml(graph, DeckFile::model)).model->graph, graph.model->graph);
}

// A deck of images.
const std::string kImages =
    "model:\n"          // 1
    "  family: vit\n"   // 2
    "  layers: 2\n"     // 3
    "  hidden: 128\n"   // 4
    "  heads: 4\n"      // 5
    "data:\n"           // 6
    "  kind: images\n"  // 7
    "train:\n"          // 8
    "  batch: 16\n"     // 9
    "  steps: 300\n";   // 10

TEST(Images, GiveSequenceAndVocabulary) {
  const Deck deck = parse(kImages);
  EXPECT_EQ(deck.model->sequence, 65);
  EXPECT_EQ(parse(kImages, kCluster, {"data.path=a.bin", "data.validation=0.1"}).data->path.size(),
            1U);
  EXPECT_EQ(problems_of(with_line(kImages, 5, "  heads: 4\n  sequence: 65")),
            "m.yaml:6:13: model.sequence is fixed with data.kind images: remove it");
  EXPECT_EQ(problems_of(with_line(kImages, 5, "  heads: 4\n  vocab: 10")),
            "m.yaml:6:10: model.vocab is fixed with data.kind images: remove it");
}

TEST(Images, AndVitBelongTogether) {
  EXPECT_EQ(problems_of(with_line(kImages, 2, "  family: gpt")),
            "m.yaml:2:11: model.family gpt is a language model, but data.kind images has no text: "
            "choose vit");
  EXPECT_EQ(problems_of(with_line(kModel, 5, "  sequence: 64\n  family: vit")),
            "m.yaml:6:11: model.family vit sees images, but data.kind is text: choose the kind "
            "images");
  const std::string graph = with_line(with_line(with_line(kImages, 5, ""), 4, ""), 3, "");
  EXPECT_EQ(problems_of(with_line(graph, 2, "  graph: a.txt")), "");
}

}  // namespace
}  // namespace hidup
