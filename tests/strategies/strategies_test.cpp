// Random strategies and the named ones, on real ranks: run under mpirun, once for all cases.
//
//   test_strategies NUMBER    random strategies per model
//
// A random strategy draws a rule for every operation and a storage for every parameter and its
// optimizer state, each axis for itself, and a number of microbatches. Everything it leads to must
// equal the run on one rank.
#include <gtest/gtest.h>

#include <cstdlib>

#include "comm/mpi_session.h"
#include "core/check.h"
#include "device_needed/device_needed.h"
#include "models/transformer.h"
#include "search/named/named_strategies.h"
#include "short_run.h"

namespace hidup {
namespace {

constexpr int kSteps = 3;
constexpr int64_t kVocab = 31;

Communicator* g_world = nullptr;  // of the session that main() holds
int g_strategies = 0;             // random ones per model

// 3 experts do not divide among 2 or 4 ranks, 5 are more than there are ranks.
Deck deck_of(const std::string& router, int64_t experts, double capacity_factor) {
  Deck deck;
  deck.model = {
      .family = "bert",
      .layers = 2,
      .hidden = 12,
      .ffn = 10,
      .heads = 3,
      .sequence = 7,
      .dropout = 0.1,
      .moe = {
          .experts = experts, .every = 2, .router = router, .capacity_factor = capacity_factor}};
  deck.train.batch = 5;
  return deck;
}

Deck gpt(Deck deck) {
  deck.model.family = "gpt";
  return deck;
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(random_stream(seed, "strategies")) {}
  size_t below(size_t n) { return random_.word(next_++) % n; }

 private:
  RandomStream random_;
  uint64_t next_ = 0;
};

// Whole, a part of some dimension, or all of it on the first rank.
Placement random_storage(const Tensor& tensor, Draw& draw) {
  const size_t dims = tensor.shape.size();
  const size_t choice = draw.below(2 * dims + 1);
  if (choice == 2 * dims) {
    return Placement::on_first_rank();
  }
  return choice < dims ? Placement::shard(static_cast<int>(choice)) : Placement::replicate();
}

Strategy random_strategy(const Graph& graph, const Mesh& mesh, uint64_t seed) {
  Draw draw(seed);
  Strategy strategy = replicated_strategy(graph, mesh);
  strategy.name = "random";
  strategy.defer_gradients = draw.below(4) == 0;
  strategy.microbatches = static_cast<int>(1 + draw.below(4));
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const std::vector<Rule> rules = rules_of(graph, op);
    for (Rule& rule : strategy.ops[static_cast<size_t>(op)].rules) {
      rule = rules[draw.below(rules.size())];
    }
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    const Tensor& tensor = graph.tensor(parameter.tensor);
    for (size_t axis = 0; axis < mesh.size(); ++axis) {
      parameter.storage[axis] = random_storage(tensor, draw);
      parameter.optimizer_state[axis] = random_storage(tensor, draw);
    }
  }
  return strategy;
}

Mesh mesh_of(uint64_t seed) {
  const int64_t ranks = g_world->size();
  return ranks == 4 && seed % 2 == 1 ? Mesh{{"node", 2}, {"core", 2}} : Mesh{{"ranks", ranks}};
}

// Rank 0 compares; every rank learns whether there was a difference, so that all go on together.
void expect_equal(const Graph& graph, const Strategy& strategy, const ShortRun& expected,
                  const std::string& what, const Bounds& bounds = {}) {
  const ShortRun found = run_steps(graph, strategy, *g_world, kSteps, kVocab);
  const std::string wrong =
      g_world->broadcast(g_world->rank() == 0 ? differences(expected, found, bounds) : "");
  EXPECT_EQ(wrong, "") << what << "\n" << print_strategy(graph, strategy);
}

void expect_equal_under_random_strategies(const Deck& deck, int strategies = g_strategies) {
  const Graph graph = build_model(deck, kVocab);
  const ShortRun expected = run_alone(graph, kSteps, kVocab);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(strategies); ++seed) {
    expect_equal(graph, random_strategy(graph, mesh_of(seed), seed), expected,
                 "random strategy " + std::to_string(seed));
    if (testing::Test::HasFailure()) {
      return;  // one is enough to read
    }
  }
}

TEST(RandomStrategies, Bert) {
  expect_equal_under_random_strategies(deck_of("", 0, 0.0));
}

TEST(RandomStrategies, SgMoe) {
  expect_equal_under_random_strategies(deck_of("top2", 5, 0.6));  // drops tokens
}

TEST(RandomStrategies, Switch) {
  expect_equal_under_random_strategies(deck_of("top1", 3, 1.25));
}

// A parameter that two operations read, each in the layout that its rule wants.
TEST(RandomStrategies, Gpt) {
  expect_equal_under_random_strategies(gpt(deck_of("", 0, 0.0)), (g_strategies + 2) / 3);
}

TEST(NamedStrategies, EqualOneRank) {
  for (const Deck& deck : {deck_of("", 0, 0.0), deck_of("top2", 3, 1.25), deck_of("top1", 5, 0.6),
                           deck_of("hash", 3, 0.8), deck_of("top1", 1, 1.0),
                           gpt(deck_of("", 0, 0.0)), gpt(deck_of("top2", 3, 1.25))}) {
    const Graph graph = build_model(deck, kVocab);
    const ShortRun expected = run_alone(graph, kSteps, kVocab);
    for (const NamedStrategy& named : named_strategies()) {
      for (int microbatches = 1; microbatches <= 4; ++microbatches) {
        Strategy strategy =
            named_strategy(named.name, graph, mesh_of(static_cast<uint64_t>(microbatches)));
        strategy.microbatches = microbatches;
        expect_equal(graph, strategy, expected, std::string(named.name));
      }
    }
  }
}

// Smooth functions only: where numbers are rounded otherwise, a learned router may choose another
// expert, and a relu (which BERT has) may let a whole gradient through or not.
TEST(NamedStrategies, EqualOneRankInSixteenBits) {
  for (const Deck& deck : {gpt(deck_of("hash", 3, 0.8)), gpt(deck_of("", 0, 0.0))}) {
    const Graph wide = build_model(deck, kVocab);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Graph graph = with_precision(wide, dtype);
      const ShortRun expected = run_alone(graph, kSteps, kVocab);
      EXPECT_EQ(differences(run_alone(wide, kSteps, kVocab), expected, bounds_of(dtype)), "")
          << name_of(dtype) << " and f32";
      for (const NamedStrategy& named : named_strategies()) {
        for (const int microbatches : {1, 3}) {
          Strategy strategy =
              named_strategy(named.name, graph, mesh_of(static_cast<uint64_t>(microbatches)));
          strategy.microbatches = microbatches;
          expect_equal(graph, strategy, expected, std::string(named.name), bounds_of(dtype));
        }
      }
    }
  }
}

// The same program gives the same bits again.
TEST(NamedStrategies, Repeat) {
  const Graph graph = build_model(deck_of("top2", 3, 1.25), kVocab);
  for (const NamedStrategy& named : named_strategies()) {
    const Strategy strategy = named_strategy(named.name, graph, mesh_of(0));
    const ShortRun once = run_steps(graph, strategy, *g_world, kSteps, kVocab);
    EXPECT_EQ(once, run_steps(graph, strategy, *g_world, kSteps, kVocab)) << named.name;
  }
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (hidup::without_device()) {
    return hidup::kSkipped;
  }
  hidup::MpiSession mpi(&argc, &argv);
  hidup::g_world = &mpi.world();
  hidup::g_strategies = argc > 1 ? std::atoi(argv[1]) : 1;
  if (hidup::g_world->rank() != 0) {  // all find the same
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  }
  try {
    return RUN_ALL_TESTS();
  } catch (const std::exception& error) {
    hidup::abort_all_ranks(hidup::ExitCode::internal, error.what());
  }
}
