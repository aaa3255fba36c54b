// Right decks: values, defaults, units, paths, overrides, and the ranks of a mesh.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "deck_text.h"

#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"

namespace hidup {
namespace {

using Strings = std::vector<std::string>;

TEST(Deck, CopiesAreDeep) {
  Deck deck;
  deck.train->batch = 1;
  Deck copy = deck;
  copy.train->batch = 2;
  EXPECT_EQ(deck.train->batch, 1);
  deck = copy;
  copy.train->batch = 3;
  EXPECT_EQ(deck.train->batch, 2);
  deck.train = *copy.train;
  copy.train->batch = 4;
  EXPECT_EQ(deck.train->batch, 3);
}

TEST(Decks, ValuesAndDefaults) {
  const Deck deck = parse(kModel);
  EXPECT_EQ(deck.model->family, "bert");
  EXPECT_EQ(deck.model->layers, 2);
  EXPECT_EQ(deck.model->ffn, 4 * 128);
  EXPECT_EQ(deck.model->vocab, std::nullopt);
  EXPECT_EQ(deck.model->dropout, 0.0);
  EXPECT_EQ(deck.model->precision, "fp32");
  EXPECT_EQ(deck.data->kind, "text");
  EXPECT_EQ(deck.data->path, Strings{"/decks/corpus.txt"});
  EXPECT_EQ(deck.data->tokenizer, "bytes");
  EXPECT_EQ(deck.train->batch, 16);
  EXPECT_EQ(deck.train->seed, 1U);
  EXPECT_EQ(deck.train->lr, 1e-3);
  EXPECT_EQ(deck.train->optimizer, "adam");
  EXPECT_EQ(deck.train->beta2, 0.999);
  EXPECT_EQ(deck.train->bucket_bytes, 4 << 20);
  EXPECT_EQ(deck.cluster->device_kind, "cpu");
  EXPECT_EQ(deck.cluster->device_threads, std::nullopt);
  EXPECT_EQ(deck.cluster->comm_backend, "auto");
  EXPECT_EQ(deck.cluster->heartbeat_timeout_s, 5.0);
  EXPECT_EQ(deck.cluster->collective_timeout_s, 600.0);
  EXPECT_EQ(deck.cluster->register_buffers, "off");
  EXPECT_EQ(deck.cluster->max_ctas, 0);
}

TEST(Decks, UnitsBecomeBaseUnits) {
  const Deck deck = parse(kModel);
  EXPECT_EQ(deck.cluster->device_memory, int64_t{2} << 30);
  ASSERT_EQ(deck.cluster->mesh.size(), 2U);
  EXPECT_EQ(deck.cluster->mesh[0].name, "node");
  EXPECT_EQ(deck.cluster->mesh[0].size, 2);
  EXPECT_DOUBLE_EQ(deck.cluster->mesh[0].latency.value(), 30e-6);
  EXPECT_EQ(deck.cluster->mesh[0].bandwidth, std::nullopt);
  EXPECT_EQ(deck.cluster->mesh[1].size, std::nullopt);
  EXPECT_DOUBLE_EQ(deck.cluster->mesh[1].bandwidth.value(), 9.71e9 / 8);
}

TEST(Decks, SeedsHave64Bits) {
  EXPECT_EQ(parse(kModel, kCluster, {"train.seed=18446744073709551615"}).train->seed, UINT64_MAX);
  EXPECT_EQ(parse(kModel, kCluster, {"train.seed=0"}).train->seed, 0U);
  EXPECT_THROW(parse(kModel, kCluster, {"train.seed=18446744073709551616"}), Error);
  EXPECT_THROW(parse(kModel, kCluster, {"train.seed=-1"}), Error);
}

TEST(Decks, NumbersPerRank) {
  const std::string model = with_line(kModel, 10, "  batch: 32 x ranks");
  EXPECT_EQ(parse(model, kCluster, {}, 6).train->batch, 192);
  EXPECT_EQ(parse(model, kCluster, {"model.moe.experts=2 x ranks"}, 6).model->moe.experts, 12);
  EXPECT_EQ(parse(model, kCluster, {"train.batch=7"}, 6).train->batch, 7);
  EXPECT_EQ(
      parse(kModel, kCluster, {"train.batch=4 x ranks", "train.batch=5 x ranks"}, 2).train->batch,
      10);
  EXPECT_NE(resolved_yaml(parse(model, kCluster, {}, 6), DeckFile::model).find("batch: 192\n"),
            std::string::npos);
  // The batch is for the mesh's ranks where no ranks are given but all sizes are.
  EXPECT_EQ(parse(model, with_line(kCluster, 6, "      size: 3")).train->batch, 32 * 2 * 3);
}

TEST(Decks, WrongNumbersPerRank) {
  const std::string model = with_line(kModel, 10, "  batch: 32 x ranks");
  const std::string unknown =
      "train.batch is 32 x ranks, but the number of ranks is not known: give it with --ranks, or "
      "write a number";
  EXPECT_EQ(problems_of(model), "m.yaml:10:10: " + unknown);
  const DeckSource alone{"m.yaml", model, "/decks"};
  EXPECT_THROW(parse_decks(&alone, nullptr, {}), Error);
  EXPECT_EQ(problems_of(with_line(kModel, 10, "  batch: 500000000 x ranks"), kCluster, {}, 3),
            "m.yaml:10:10: train.batch: expected an integer from 1 to 1000000000, or such as 2 x "
            "ranks, found 500000000 x ranks, which is 1500000000 on 3 rank(s)");
  for (const std::string value : {"0 x ranks", "2x ranks", "1.5 x ranks", "x ranks", "2 x rank",
                                  "-1 x ranks", "'2 x ranks'", "2 x ranks x ranks"}) {
    EXPECT_EQ(problems_of(with_line(kModel, 10, "  batch: " + value), kCluster, {}, 2)
                  .find("m.yaml:10:10: train.batch: expected an integer"),
              0U)
        << value;
  }
  EXPECT_EQ(problems_of(with_line(kModel, 4, "  heads: 2 x ranks"), kCluster, {}, 2)
                .find("m.yaml:4:10: model.heads: expected an integer from 1 to 10000, found"),
            0U);
}

TEST(Decks, ADeckCanStandAlone) {
  const DeckSource model{"m.yaml", kModel, "/decks"};
  const Deck deck = parse_decks(&model, nullptr, {});
  ASSERT_EQ(deck.cluster->mesh.size(), 1U);
  EXPECT_EQ(deck.cluster->mesh[0].name, "ranks");
  EXPECT_EQ(deck.cluster->mesh[0].size, std::nullopt);
  const DeckSource cluster{"c.yaml", kCluster, "/decks"};
  EXPECT_EQ(parse_decks(nullptr, &cluster, {}).train->optimizer, "adam");
}

TEST(Decks, PathsStartInTheFolderOfTheDeck) {
  EXPECT_EQ(parse(with_line(kModel, 8, "  path: [a.txt, ../b/*.txt, '/c d', no, 7]")).data->path,
            (Strings{"/decks/a.txt", "/b/*.txt", "/c d", "/decks/no", "/decks/7"}));
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(parse(kModel, kCluster, {"data.path=a.txt"}).data->path, Strings{here + "/a.txt"});
}

TEST(Decks, ValidationIsAPartOfTheDataOrFiles) {
  const auto validation = [](const std::string& value) {
    return parse(with_line(kModel, 8, "  path: corpus.txt\n  validation: " + value))
        .data->validation;
  };
  EXPECT_TRUE(parse(kModel).data->validation.empty());
  EXPECT_TRUE(validation("none").empty());
  EXPECT_EQ(validation("0.1").fraction, 0.1);
  EXPECT_EQ(validation("0.1").path, Strings{});
  EXPECT_EQ(validation("v.txt").path, Strings{"/decks/v.txt"});
  EXPECT_EQ(validation("v.txt").fraction, 0.0);
  EXPECT_EQ(validation("[v*.txt, none, 0.1]").path,
            (Strings{"/decks/v*.txt", "/decks/none", "/decks/0.1"}));
  EXPECT_EQ(validation("'0.1'").path, Strings{"/decks/0.1"});
  EXPECT_EQ(validation("\"none\"").path, Strings{"/decks/none"});
  const Deck last = parse(kModel, kCluster, {"data.validation=v.txt", "data.validation=0.5"});
  EXPECT_EQ(last.data->validation.path, Strings{});
  EXPECT_EQ(last.data->validation.fraction, 0.5);
}

TEST(Decks, Checkpoints) {
  const CheckpointDeck none = parse(kModel).train->checkpoint;
  EXPECT_EQ(none.every_steps, 0);
  EXPECT_EQ(none.every_s, std::nullopt);
  EXPECT_EQ(none.keep, 3);
  EXPECT_EQ(none.folder, "");
  const CheckpointDeck given =
      parse(kModel +
            "  checkpoint: {every_steps: 100, every: 10min, keep: 0, folder: here, "
            "blocking: on, on_error: stop}\n")
          .train->checkpoint;
  EXPECT_EQ(given.every_steps, 100);
  EXPECT_EQ(given.every_s, 600.0);
  EXPECT_EQ(given.keep, 0);
  EXPECT_EQ(given.folder, "/decks/here");
  EXPECT_EQ(given.blocking, "on");
  EXPECT_EQ(given.on_error, "stop");
  EXPECT_EQ(parse(kModel + "  checkpoint: {every: none, folder: auto}\n").train->checkpoint.folder,
            "");
}

TEST(Decks, OverridesComeLast) {
  const Deck deck = parse(kModel, kCluster,
                          {"model.layers=3", "model.layers=4", "train.optimizer=adamw",
                           "cluster.mesh=[{name: a, size: 8}]", "cluster.device.memory=auto",
                           "model.hidden=256", "train.lr=2e-3"});
  EXPECT_EQ(deck.model->layers, 4);
  EXPECT_EQ(deck.model->ffn, 4 * 256);
  EXPECT_EQ(deck.train->optimizer, "adamw");
  EXPECT_EQ(deck.train->lr, 2e-3);
  EXPECT_EQ(deck.cluster->device_memory, std::nullopt);
  ASSERT_EQ(deck.cluster->mesh.size(), 1U);
  EXPECT_EQ(deck.cluster->mesh[0].size, 8);
  EXPECT_EQ(deck.cluster->mesh[0].latency, std::nullopt);
}

TEST(Decks, AnOverrideMayGiveWhatTheDeckLacks) {
  EXPECT_EQ(parse(with_line(kModel, 2, ""), kCluster, {"model.layers=3"}).model->layers, 3);
  EXPECT_EQ(parse(with_line(kModel, 8, ""), kCluster, {"data.kind=synthetic", "model.vocab=9"})
                .model->vocab,
            9);
}

TEST(Decks, OverridesOfADeckThatIsNotGivenAreChecked) {
  const DeckSource model{"m.yaml", kModel, "/decks"};
  EXPECT_THROW(parse_decks(&model, nullptr, Strings{"cluster.mesh=[]"}), Error);
  EXPECT_EQ(parse_decks(&model, nullptr, Strings{"cluster.mesh=[{name: a, size: 3}]"})
                .cluster->mesh[0]
                .size,
            3);
}

TEST(Decks, ReadFromFiles) {
  const DeckSource source = read_deck_file(HIDUP_INPUTS "/models/tiny.yaml");
  EXPECT_EQ(source.name, HIDUP_INPUTS "/models/tiny.yaml");
  EXPECT_TRUE(source.folder.ends_with("/inputs/models")) << source.folder;
  EXPECT_NE(source.text.find("\nmodel:\n"), std::string::npos);
}

TEST(Decks, FilesThatCannotBeRead) {
  const auto problem = [](const std::string& path) -> std::string {
    try {
      read_deck_file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem("no/such.yaml"),
            "cannot read the deck no/such.yaml: No such file or directory");
  EXPECT_EQ(problem(HIDUP_INPUTS), "cannot read the deck " HIDUP_INPUTS ": Is a directory");
}

TEST(Decks, ShippedDecksAreRight) {
  const std::string laptop = HIDUP_INPUTS "/clusters/laptop.yaml";
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HIDUP_INPUTS "/models")) {
    if (entry.path().extension() != ".yaml") {
      continue;  // a graph
    }
    const DeckSource model = read_deck_file(entry.path());
    const DeckSource cluster = read_deck_file(laptop);
    EXPECT_NO_THROW(parse_decks(&model, &cluster, {})) << entry.path();
    ++models;
  }
  EXPECT_GE(models, 1);
  for (const auto& entry : std::filesystem::directory_iterator(HIDUP_INPUTS "/clusters")) {
    const DeckSource cluster = read_deck_file(entry.path());
    EXPECT_NO_THROW(parse_decks(nullptr, &cluster, {})) << entry.path();
  }
}

// Bandwidths of a rank in bytes/s, from its outermost link to the one between neighbours on a
// machine.
struct ShippedCluster {
  std::string name;
  std::vector<int64_t> sizes;
  std::vector<double> bandwidths;
};

TEST(Decks, ShippedClustersHaveTheirLinks) {
  const double v100 = 1.3e11;
  const std::vector<ShippedCluster> clusters = {{"v100-1x8", {8}, {v100}},
                                                {"v100-2x4-100gbps", {2, 4}, {1e11 / 8 / 4, v100}},
                                                {"v100-2x4-30gbps", {2, 4}, {3e10 / 8 / 4, v100}},
                                                {"v100-8x8-10gbps", {8, 8}, {9.71e9 / 8 / 8, v100}},
                                                {"v100-2x4-100gbps-flat", {8}, {1e11 / 8}},
                                                {"v100-2x4-30gbps-flat", {8}, {3e10 / 8}},
                                                {"v100-8x8-10gbps-flat", {64}, {9.71e9 / 8}},
                                                {"a100-4x8", {4, 8}, {2.5e10, 3e11}},
                                                {"h100-16x8", {16, 8}, {5e10, 4.5e11}},
                                                {"h100-16k", {2048, 8}, {5e10, 4.5e11}},
                                                {"h200-1", {1}, {0.0}}};
  for (const ShippedCluster& cluster : clusters) {
    const DeckSource source = read_deck_file(HIDUP_INPUTS "/clusters/" + cluster.name + ".yaml");
    const Deck deck = parse_decks(nullptr, &source, {});
    std::vector<int64_t> sizes;
    std::vector<double> bandwidths;
    for (const MeshAxis& axis : deck.cluster->mesh) {
      sizes.push_back(axis.size.value_or(0));
      bandwidths.push_back(axis.bandwidth.value_or(0.0) / static_cast<double>(axis.shared));
      EXPECT_EQ(axis.per_host, 1) << cluster.name;
    }
    EXPECT_EQ(sizes, cluster.sizes) << cluster.name;
    EXPECT_EQ(bandwidths, cluster.bandwidths) << cluster.name;
    EXPECT_TRUE(deck.cluster->device_flops && deck.cluster->flops_16bit) << cluster.name;
    EXPECT_FALSE(deck.cluster->efficiency.empty()) << cluster.name << " promises all flops";
  }
}

TEST(Decks, TellWhereTheirKeysStand) {
  const Deck deck = parse(kModel, kCluster, {"train.lr=0.1", "train.lr=0.2"});
  EXPECT_EQ(place_of(deck, "train.batch"), "m.yaml:10:10");
  EXPECT_EQ(place_of(deck, "train.lr"), "--set train.lr=0.2");
  EXPECT_EQ(place_of(deck, "train.seed"), "m.yaml:9:1") << "not given: its section";
  EXPECT_EQ(place_of(deck, "model.moe.experts"), "m.yaml:1:1");
  EXPECT_EQ(place_of(deck, "cluster.mesh[0].latency"), "c.yaml:4:38");
  EXPECT_EQ(place_of(deck, "cluster.mesh[0].bandwidth"), "c.yaml:4:7") << "not given: its axis";
  EXPECT_EQ(place_of(deck, "cluster.profile"), "c.yaml:1:1");
  const Deck sectionless = parse("# none\n" + kModel.substr(0, kModel.find("train:")), "{}",
                                 {"train.batch=1", "train.steps=1"});
  EXPECT_EQ(place_of(sectionless, "train.seed"), "m.yaml:1:1") << "not given: the deck's start";
  EXPECT_EQ(place_of(sectionless, "cluster.device.flops"), "c.yaml:1:1");
}

TEST(Decks, AnOverrideOfOneAxis) {
  const Deck deck = parse(kModel, kCluster,
                          {"cluster.mesh.gpu.bandwidth=1GB/s", "cluster.mesh.gpu.size=8",
                           "cluster.mesh.node.latency=2s", "cluster.mesh.gpu.bandwidth=2GB/s"});
  ASSERT_EQ(deck.cluster->mesh.size(), 2);
  const MeshAxis& node = deck.cluster->mesh[0];
  const MeshAxis& gpu = deck.cluster->mesh[1];
  EXPECT_EQ(gpu.bandwidth, 2e9) << "the last one holds";
  EXPECT_EQ(gpu.size, 8);
  EXPECT_EQ(gpu.latency, std::nullopt);
  EXPECT_EQ(node.latency, 2.0);
  EXPECT_EQ(node.bandwidth, std::nullopt);
  EXPECT_EQ(node.size, 2);
  EXPECT_EQ(place_of(deck, "cluster.mesh[1].size"), "--set cluster.mesh.gpu.size=8");
  EXPECT_EQ(parse(kModel, "{}", {"cluster.mesh.ranks.size=4"}).cluster->mesh[0].size, 4)
      << "the default mesh has one axis";
  const Deck renamed =
      parse(kModel, kCluster, {"cluster.mesh=[{name: host, size: 2}]", "cluster.mesh.host.size=3"});
  EXPECT_EQ(renamed.cluster->mesh[0].size, 3) << "the axes are those of an earlier override";
}

TEST(Decks, ThatWereNotReadHaveNoPlaces) {
  const DeckSource model{"m.yaml", kModel, "/decks"};
  EXPECT_EQ(place_of(parse_decks(&model, nullptr, {}), "cluster.mesh"), "");
  EXPECT_EQ(place_of(Deck{}, "train.batch"), "");
  try {
    fail_at(Deck{}, "train.batch", "too large", ExitCode::infeasible);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::infeasible);
    EXPECT_STREQ(error.what(), "too large");
  }
}

std::vector<int64_t> sizes_for(const std::string& mesh, int64_t ranks) {
  return check_ranks(parse(kModel, kCluster, {"cluster.mesh=" + mesh}), ranks);
}

std::string problem_of_ranks(const std::string& mesh, int64_t ranks) {
  try {
    sizes_for(mesh, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Ranks, FillTheMesh) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes_for("[{name: ranks, size: auto}]", 3), Sizes{3});
  EXPECT_EQ(sizes_for("[{name: node, size: 2}, {name: gpu, size: 4}]", 8), (Sizes{2, 4}));
  EXPECT_EQ(sizes_for("[{name: node, size: auto}, {name: gpu, size: 4}]", 12), (Sizes{3, 4}));
}

TEST(Ranks, ThatDoNotFillTheMesh) {
  EXPECT_EQ(problem_of_ranks("[{name: node, size: 2}, {name: gpu, size: 4}]", 3),
            "--set cluster.mesh=[{name: node, size: 2}, {name: gpu, size: 4}]: "
            "cluster.mesh: node x gpu = 2 x 4 = 8 ranks, but there are 3");
  EXPECT_EQ(problem_of_ranks("[{name: ranks, size: 4}]", 3),
            "--set cluster.mesh=[{name: ranks, size: 4}]: "
            "cluster.mesh: ranks = 4 ranks, but there are 3");
  EXPECT_EQ(problem_of_ranks("[{name: node, size: auto}, {name: gpu, size: 4}]", 6),
            "--set cluster.mesh=[{name: node, size: auto}, {name: gpu, size: 4}]: "
            "cluster.mesh: node x gpu = auto x 4, but 6 ranks are not a multiple of 4");
}

}  // namespace
}  // namespace hidup
