// Functions that all ranks of a job call together, on ranks that are threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "app/costs.h"
#include "app/inputs.h"
#include "app/machine.h"
#include "app/plan.h"
#include "app/planning.h"
#include "comm/collective.h"
#include "deck/cluster_deck.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "fake_ranks/fake_ranks.h"
#include "search/named/named_strategies.h"
#include "small_decks.h"
#include "train/dataset.h"

namespace hidup {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

// Returns the error that `work` throws on rank 0; the others throw its code without a message.
std::pair<ExitCode, std::string> failure_of_ranks(
    const std::function<void(Communicator& world)>& work) {
  std::pair<ExitCode, std::string> first{ExitCode::done, ""};
  std::array<ExitCode, 3> codes{};
  run_ranks(3, [&](Communicator& world) {
    try {
      work(world);
    } catch (const CollectiveError& error) {
      codes.at(static_cast<size_t>(world.rank())) = error.code();
      if (world.rank() == 0) {
        first = {error.code(), error.what()};
      } else {
        EXPECT_STREQ(error.what(), "");
      }
    }
  });
  EXPECT_THAT(codes, testing::Each(first.first));
  return first;
}

TEST(LoadDecks, AllRanksHaveWhatTheFirstOneReads) {
  const SmallDecks decks;
  run_ranks(3, [&](Communicator& world) {
    // Only rank 0 has the files, as on hosts without a common file system.
    const std::string nowhere = world.rank() == 0 ? "" : "/nowhere";
    const Decks loaded =
        load_decks(nowhere + decks.model, nowhere + decks.cluster, {"train.seed=7"}, world, "vm");
    EXPECT_EQ(loaded.deck.model->hidden, 32);
    EXPECT_EQ(loaded.deck.cluster->mesh.at(0).bandwidth, 1e9);
    EXPECT_EQ(loaded.deck.train->seed, 7);
    EXPECT_EQ(place_of(loaded.deck, "model.hidden"), decks.model + ":2:23");
  });
}

TEST(LoadDecks, AllRanksFailTogether) {
  const SmallDecks decks;
  const std::string missing = decks.folder / "none.yaml";
  EXPECT_THAT(failure_of_ranks([&](Communicator& world) {
                load_decks(missing, decks.cluster, {}, world, "vm");
              }),
              Pair(ExitCode::file, HasSubstr(missing)));
  EXPECT_THAT(failure_of_ranks([&](Communicator& world) {
                load_decks(decks.model, decks.cluster, {"model.layer=1"}, world, "vm");
              }),
              Pair(ExitCode::usage, HasSubstr("did you mean model.layers?")));
}

TEST(LoadData, CountsTheVocabularyThatRunsRecord) {
  const SmallDecks decks;
  decks.folder.write("corpus.txt", std::string(100, 'a') + "bcd");
  const Deck deck =
      decks.read({"data.kind=text", "data.path=" + decks.folder / "corpus.txt", "model.vocab=auto"})
          .deck;
  const auto self = make_self_communicator();
  const Dataset data = load_data(deck, *self);
  EXPECT_GE(data.vocab, 4);
  EXPECT_FALSE(deck.model->vocab);
  EXPECT_THAT(resolved_yaml(with_vocab(deck, data.vocab)),
              HasSubstr(fmt::format("vocab: {}\n", data.vocab)));
}

class LoadStrategy : public testing::Test {
 protected:
  LoadedStrategy load(const std::string& choice, Communicator& world, int64_t memory = 1 << 30) {
    return load_strategy(
        choice, input_.deck, input_.graph, input_.mesh,
        {.costs = costs_,
         .memory = std::vector<int64_t>(static_cast<size_t>(world.size()), memory)},
        "", world);
  }

  SmallDecks decks_;
  PlanningInput input_ = decks_.read({"model.layers=1", "cluster.device.memory=auto"}, 4);
  std::optional<Profile> costs_ = costs_of(input_.deck, input_.mesh, std::nullopt);
};

TEST_F(LoadStrategy, AllRanksHaveTheOneOfTheFirst) {
  const std::string file = decks_.folder.write(
      "mine.yaml", print_strategy(input_.graph, named_strategy("fsdp", input_.graph, input_.mesh)));
  run_ranks(3, [&](Communicator& world) {
    const std::string choice = world.rank() == 0 ? file : "/nowhere" + file;
    const LoadedStrategy loaded = load(choice, world);
    EXPECT_EQ(loaded.strategy.name, "fsdp");
    EXPECT_EQ(loaded.search_s, 0.0) << "nobody searched";
  });
}

TEST_F(LoadStrategy, SearchesOnTheFirstRankWithinTheMemoryOfTheDevices) {
  std::array<uint64_t, 3> hashes{};
  run_ranks(3, [&](Communicator& world) {
    const LoadedStrategy loaded = load(kSearch, world);
    hashes.at(static_cast<size_t>(world.rank())) = strategy_hash(input_.graph, loaded.strategy);
    EXPECT_EQ(loaded.search_s > 0.0, world.rank() == 0);
  });
  EXPECT_THAT(hashes, testing::Each(hashes[0]));
  EXPECT_EQ(failure_of_ranks([&](Communicator& world) { load(kSearch, world, 1000); }).first,
            ExitCode::infeasible);
}

TEST_F(LoadStrategy, SaysWhatASearchLacks) {
  input_.deck.cluster->device_flops.reset();
  costs_.reset();
  EXPECT_THAT(failure_of_ranks([&](Communicator& world) { load(kSearch, world); }),
              Pair(ExitCode::usage,
                   HasSubstr("cluster.device.flops is missing: --strategy search rests on it")));
  EXPECT_EQ(failure_of_ranks([&](Communicator& world) { load("dp", world); }).first,
            ExitCode::done);
}

TEST_F(LoadStrategy, RanksThatMakeOtherProgramsAreFound) {
  const auto make = [&](const std::string& of_last) {
    return failure_of_ranks([&](Communicator& world) {
      const Strategy strategy =
          named_strategy(world.rank() == 2 ? of_last : "dp", input_.graph, input_.mesh);
      make_program(input_.graph, strategy, input_.deck, world);
    });
  };
  EXPECT_EQ(make("dp").first, ExitCode::done);
  EXPECT_EQ(make("fsdp").first, ExitCode::internal);
}

}  // namespace
}  // namespace hidup
