#include "train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "app/planning.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "fake_ranks/fake_ranks.h"
#include "models/transformer.h"
#include "program/lower.h"
#include "program/verify.h"
#include "search/named/named_strategies.h"
#include "train/inputs.h"

namespace hidup {
namespace {

constexpr int64_t kVocab = 19;

Deck small_deck(int64_t batch, int64_t experts = 0) {
  Deck deck;
  deck.model = {.family = "gpt",
                .layers = 2,
                .hidden = 12,
                .ffn = 20,
                .heads = 3,
                .sequence = 7,
                .dropout = 0.1,
                .moe = {.experts = experts, .every = 2, .router = "top2", .capacity_factor = 1.0}};
  deck.train = {.batch = batch,
                .seed = 5,
                .optimizer = "adam",
                .beta1 = 0.9,
                .beta2 = 0.999,
                .epsilon = 1e-8,
                .clip_norm = 1.0,
                .bucket_bytes = 2048};
  return deck;
}

// A rank that trains, and evaluates with the same store.
class Rank {
 public:
  Rank(const Deck& deck, const std::string& strategy, int microbatches, Communicator& world)
      : deck_(deck), world_(world), graph_(build_model(deck, kVocab)) {
    Strategy chosen = named_strategy(strategy, graph_, {{"ranks", world.size()}});
    chosen.microbatches = microbatches;
    training_ = lower(graph_, chosen, lowering_options(deck));
    forward_ = lower_forward(graph_, chosen, lowering_options(deck));
    const MemoryPlan plan = plan_memory(training_, world.rank());
    const MemoryPlan behind = plan_memory(forward_, world.rank(), stored_values(training_, plan));
    verify(forward_, behind);
    groups_.emplace(world, training_.mesh);
    groups_->add_groups_of(training_);
    groups_->add_groups_of(forward_);
    const PlannedProgram programs[] = {{training_, plan}, {forward_, behind}};
    store_.emplace(programs, *device_, *groups_, 1);
    trainer_.emplace(training_, plan, *store_, world.rank(), deck.train->seed);
    trainer_->initialize_parameters();
    evaluated_.emplace(forward_, behind, *store_, world.rank(), deck.train->seed);
  }

  // Trains for some steps and returns the last loss.
  float train(int64_t steps) {
    StepInputs inputs;
    for (int64_t step = 1; step <= steps; ++step) {
      fill_inputs(training_, world_.rank(), deck_, *batches_, step, inputs);
      trainer_->start(step, 0.01, inputs);
      trainer_->wait();
      if (after_step_) {
        after_step_();
      }
    }
    return trainer_->read(training_.loss)[0];
  }

  MeanLoss evaluate(int64_t sequences) {
    return Evaluator(deck_, *batches_, sequences, *evaluated_, world_).run();
  }

  std::function<void()> after_step_;

 private:
  const Deck& deck_;
  Communicator& world_;
  Graph graph_;
  Program training_, forward_;
  std::unique_ptr<Batches> batches_ = synthetic_batches(kVocab, 7, 5);
  std::unique_ptr<Device> device_ = make_device({});
  std::optional<MeshGroups> groups_;
  std::optional<Store> store_;
  std::optional<Executor> trainer_, evaluated_;
};

MeanLoss alone(const Deck& deck, int64_t sequences) {
  const std::unique_ptr<Communicator> self = make_self_communicator();
  return Rank(deck, "dp", 1, *self).evaluate(sequences);
}

TEST(Evaluator, IsTheMeanOverAllTargets) {
  // The sum over k sequences is k times their mean; each further sequence adds its own loss.
  double sum = 0.0;
  for (int64_t sequences = 1; sequences <= 5; ++sequences) {
    const MeanLoss found = alone(small_deck(1), sequences);
    const double last = found.loss * static_cast<double>(sequences) - sum;
    EXPECT_NEAR(last, std::log(kVocab), 0.5);
    sum += last;
    EXPECT_EQ(found.targets, 7 * sequences);
    for (const int64_t batch : {2, 3, 8}) {
      EXPECT_NEAR(alone(small_deck(batch), sequences).loss, found.loss, 2e-6)
          << sequences << " sequences in batches of " << batch;
    }
  }
}

// With 11 sequences the last batch is cut on some rank, and some ranks have no target.
TEST(Evaluator, IsTheSameOnAnyRanksUnderAnyStrategy) {
  for (const int64_t experts : {0, 3}) {
    const double expected = alone(small_deck(4, experts), 11).loss;
    for (const int ranks : {2, 3}) {
      for (const NamedStrategy& named : named_strategies()) {
        for (const int64_t batch : {3, 8}) {
          const Deck deck = small_deck(batch, experts);
          run_ranks(ranks, [&](Communicator& world) {
            const MeanLoss found =
                Rank(deck, std::string(named.name), 1 + ranks % 2, world).evaluate(11);
            EXPECT_NEAR(found.loss, expected, 2e-5 * expected)
                << named.name << " on " << ranks << " ranks in batches of " << batch;
          });
        }
      }
    }
  }
}

TEST(Evaluator, LeavesTheTrainingAlone) {
  const Deck deck = small_deck(4, 3);
  for (const char* strategy : {"dp", "fsdp"}) {
    run_ranks(2, [&](Communicator& world) {
      const float expected = Rank(deck, strategy, 2, world).train(4);
      Rank rank(deck, strategy, 2, world);
      std::vector<double> losses;
      rank.after_step_ = [&] { losses.push_back(rank.evaluate(6).loss); };
      EXPECT_EQ(rank.train(4), expected);
      EXPECT_NE(losses.back(), losses.front());  // evaluates the parameters of now
      EXPECT_EQ(rank.evaluate(6).loss, losses.back());
    });
  }
}

}  // namespace
}  // namespace hidup
