// Collectives and memory of named strategies. The numbers are those of the papers that
// NamedStrategy::source names.
#include "search/named/named_strategies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "core/check.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "models/transformer.h"
#include "program/memory.h"
#include "program/print.h"
#include "program/verify.h"
#include "simple_costs.h"

namespace hidup {
namespace {

constexpr int64_t kOneBucket = int64_t{1} << 40;
constexpr int64_t kNoBuckets = 1;  // every gradient is sent when complete

// Returns two blocks; with experts the second has 5 of them, two for every token.
Graph model(bool experts) {
  Deck deck;
  deck.model = {.family = "bert",
                .layers = 2,
                .hidden = 12,
                .ffn = 20,
                .heads = 3,
                .sequence = 7,
                .dropout = 0.1};
  if (experts) {
    deck.model->moe = {.experts = 5, .every = 2, .router = "top2", .capacity_factor = 1.0};
  }
  deck.train->batch = 5;
  return build_model(deck, 31);
}

Program program_of(const Graph& graph, std::string_view name, const Mesh& mesh,
                   int64_t bucket_bytes) {
  return lower(graph, named_strategy(name, graph, mesh), simple_lowering(bucket_bytes));
}

// Returns the number of each collective in the phase, such as "all_reduce 5, all_gather 1".
std::string collectives(const Program& program, Phase phase) {
  std::map<Opcode, int> counts;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == phase && !collective_of(instruction.opcode).empty()) {
      ++counts[instruction.opcode];
    }
  }
  std::string text;
  for (const auto& [opcode, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(opcode), count);
  }
  return text;
}

struct ExpectedByName {
  const char* strategy;
  bool experts;
  int64_t bucket_bytes;
  const char* forward;
  const char* backward;
  const char* update;
};

void PrintTo(const ExpectedByName& expected, std::ostream* out) {
  *out << expected.strategy << (expected.experts ? " with experts" : "");
}

class Collectives : public testing::TestWithParam<ExpectedByName> {};

TEST_P(Collectives, AreThoseOfTheStrategy) {
  const ExpectedByName& expected = GetParam();
  const Graph graph = model(expected.experts);
  for (const int64_t ranks : {2, 3}) {
    const Program program =
        program_of(graph, expected.strategy, {{"ranks", ranks}}, expected.bucket_bytes);
    EXPECT_EQ(collectives(program, Phase::forward), expected.forward);
    EXPECT_EQ(collectives(program, Phase::backward), expected.backward);
    EXPECT_EQ(collectives(program, Phase::update), expected.update);
    EXPECT_FALSE(testing::Test::HasFailure()) << print_collectives(program);
  }
}

// An all-reduce in forward is for the loss, which every rank prints; experts' loads are sent with
// it. An all-reduce in update is the squared norm of sharded gradients. The dense model has 27
// parameters in 23 operations, the one with experts 28 in 24: a bucket ends between operations, but
// parameters are gathered one by one.
INSTANTIATE_TEST_SUITE_P(
    DataParallel, Collectives,
    testing::Values(
        // Only gradients are sent.
        ExpectedByName{"dp", false, kOneBucket, "all_reduce 1", "all_reduce 1", ""},
        ExpectedByName{"dp", false, kNoBuckets, "all_reduce 1", "all_reduce 23", ""},
        ExpectedByName{"dp", true, kOneBucket, "all_reduce 1", "all_reduce 1", ""},
        ExpectedByName{"dp", true, kNoBuckets, "all_reduce 1", "all_reduce 24", ""},
        // Each all-reduce becomes a reduce-scatter, and an all-gather of the updated parts.
        ExpectedByName{"zero1", false, kOneBucket, "all_reduce 1", "reduce_scatter 1",
                       "all_reduce 1, all_gather 1"},
        ExpectedByName{"zero1", false, kNoBuckets, "all_reduce 1", "reduce_scatter 23",
                       "all_reduce 1, all_gather 23"},
        ExpectedByName{"zero1", true, kNoBuckets, "all_reduce 1", "reduce_scatter 24",
                       "all_reduce 1, all_gather 24"},
        // Parameters are gathered for their use, and not after the update.
        ExpectedByName{"fsdp-kept", false, kOneBucket, "all_reduce 1, all_gather 1",
                       "reduce_scatter 1", "all_reduce 1"},
        ExpectedByName{"fsdp-kept", false, kNoBuckets, "all_reduce 1, all_gather 27",
                       "reduce_scatter 23", "all_reduce 1"},
        ExpectedByName{"fsdp-kept", true, kNoBuckets, "all_reduce 1, all_gather 28",
                       "reduce_scatter 24", "all_reduce 1"},
        // The backward pass gathers the weights of products and norms again; the head's weight is
        // still there.
        ExpectedByName{"fsdp", false, kOneBucket, "all_reduce 1, all_gather 1",
                       "all_gather 1, reduce_scatter 1", "all_reduce 1"},
        ExpectedByName{"fsdp", false, kNoBuckets, "all_reduce 1, all_gather 27",
                       "all_gather 12, reduce_scatter 23", "all_reduce 1"},
        ExpectedByName{"fsdp", true, kNoBuckets, "all_reduce 1, all_gather 28",
                       "all_gather 13, reduce_scatter 24", "all_reduce 1"},
        // The server sends parameters and receives the sum of the gradients; it alone computes
        // their norm.
        ExpectedByName{"ps", false, kOneBucket, "all_reduce 1, broadcast 1", "reduce_scatter 1",
                       "broadcast 1"},
        ExpectedByName{"ps", false, kNoBuckets, "all_reduce 1, broadcast 27", "reduce_scatter 23",
                       "broadcast 1"},
        ExpectedByName{"ps", true, kNoBuckets, "all_reduce 1, broadcast 28", "reduce_scatter 24",
                       "broadcast 1"}));

INSTANTIATE_TEST_SUITE_P(
    ExpertParallel, Collectives,
    testing::Values(
        // Without experts the strategy is dp.
        ExpectedByName{"ep-deepspeed", false, kNoBuckets, "all_reduce 1", "all_reduce 23", ""},
        ExpectedByName{"ep-fastmoe", false, kNoBuckets, "all_reduce 1", "all_reduce 1", ""},
        // Forward: the buffers to the experts and back, and their rows in use. Backward: their
        // gradients to the experts and back; the experts' 4 gradients need no messages.
        ExpectedByName{"ep-deepspeed", true, kNoBuckets, "all_reduce 1, all_to_all 3",
                       "all_reduce 20, all_to_all 2", "all_reduce 1"},
        ExpectedByName{"ep-deepspeed", true, kOneBucket, "all_reduce 1, all_to_all 3",
                       "all_reduce 1, all_to_all 2", "all_reduce 1"},
        // All replicated gradients are sent in one piece, however small the buckets are.
        ExpectedByName{"ep-fastmoe", true, kNoBuckets, "all_reduce 1, all_to_all 3",
                       "all_reduce 1, all_to_all 2", "all_reduce 1"}));

INSTANTIATE_TEST_SUITE_P(
    TensorParallel, Collectives,
    testing::Values(
        // Forward: after attention and after the feed-forward network of each of 2 layers, and
        // after the embedding; the all-gather has two numbers per target from every part of the
        // vocabulary. Backward: before both halves of each layer and before the head. All gradients
        // of parameters are complete. The batch is not cut, so the loss needs no sum.
        ExpectedByName{"megatron", false, kOneBucket, "all_reduce 5, all_gather 1", "all_reduce 5",
                       "all_reduce 1"},
        ExpectedByName{"megatron", false, kNoBuckets, "all_reduce 5, all_gather 1", "all_reduce 5",
                       "all_reduce 1"},
        // Experts add one sum forward, after combine, and two backward, because experts depend on x
        // by the buffer and by the gates.
        ExpectedByName{"megatron", true, kNoBuckets, "all_reduce 5, all_gather 1", "all_reduce 6",
                       "all_reduce 1"},
        // Each all-reduce becomes a reduce-scatter and an all-gather. Norms, and biases after rows,
        // see a part of the sequence: the all-reduce adds up their 12 gradients.
        ExpectedByName{"megatron-sp", false, kOneBucket, "all_gather 6, reduce_scatter 5",
                       "all_reduce 1, all_gather 5, reduce_scatter 5", "all_reduce 1"},
        // Routing needs whole sequences. Forward also gathers the router's logits. Backward: the
        // sums of the buffer's and the gates' gradients are whole, so the reduce-scatter before the
        // second half of the layer with experts is missing from the 5.
        ExpectedByName{"megatron-sp", true, kOneBucket, "all_gather 7, reduce_scatter 5",
                       "all_reduce 3, all_gather 5, reduce_scatter 4", "all_reduce 1"}));

// Returns the elements of a dimension in a rank's balanced part.
int64_t part(int64_t extent, int64_t ranks, int64_t rank) {
  return (extent + ranks - 1 - rank) / ranks;
}

// Returns the dimension of a parameter that tensor parallelism cuts; -1 for none.
int tensor_parallel_dim(const std::string& name) {
  const std::map<std::string, int> cut = {
      {"embedding.weight", 0},  // vocabulary
      {"head.weight", 1},          {"head.bias", 0},
      {"attention.qkv.weight", 2},  // heads
      {"attention.qkv.bias", 1},   {"attention.out.weight", 0},
      {"ffn.up.weight", 1},        {"ffn.up.bias", 0},
      {"ffn.down.weight", 0},      {"moe.experts.up.weight", 2},
      {"moe.experts.up.bias", 1},  {"moe.experts.down.weight", 1}};
  const size_t layer = std::string("layers.0.").size();
  const auto found = cut.find(name.starts_with("layers.") ? name.substr(layer) : name);
  return found == cut.end() ? -1 : found->second;
}

int64_t stored_elements(const std::string& strategy, const Tensor& tensor, int64_t ranks,
                        int64_t rank) {
  Shape shape = tensor.shape;
  int dim = -1;
  if (strategy == "ps") {
    return rank == 0 ? elements(shape) : 0;
  }
  if (strategy.starts_with("fsdp") || strategy == "hsdp") {
    dim = 0;  // each first dimension has at least 3 elements
  } else if (strategy.starts_with("ep-")) {
    dim = tensor.name.find(".experts.") == std::string::npos ? -1 : 0;
  } else if (strategy.starts_with("megatron")) {
    dim = tensor_parallel_dim(tensor.name);
  }
  if (dim >= 0) {
    shape[static_cast<size_t>(dim)] = part(shape[static_cast<size_t>(dim)], ranks, rank);
  }
  return elements(shape);
}

int64_t parameter_bytes(const std::string& strategy, const Graph& graph, int64_t ranks,
                        int64_t rank) {
  int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      // Every value starts at a multiple of 64 bytes.
      bytes += (4 * stored_elements(strategy, tensor, ranks, rank) + 63) / 64 * 64;
    }
  }
  return bytes;
}

TEST(Memory, OfParametersIsWhatTheStrategyStores) {
  for (const bool experts : {false, true}) {
    const Graph graph = model(experts);
    for (const NamedStrategy& named : named_strategies()) {
      const std::string name(named.name);
      if (name == "min-comm" || named.of_stages) {
        continue;  // they depend on the sizes: min_comm_test.cpp, pipeline_test.cpp
      }
      for (const int64_t ranks : {2, 3}) {
        const Program program = program_of(graph, name, {{"ranks", ranks}}, kOneBucket);
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const MemoryPlan plan = plan_memory(program, rank);
          EXPECT_EQ(plan.parameter_bytes, parameter_bytes(name, graph, ranks, rank))
              << name << " on rank " << rank << " of " << ranks;
          // The optimizer has two moments of the elements that the rank updates.
          const std::string updated = name == "zero1" ? "fsdp" : name;
          EXPECT_EQ(plan.optimizer_bytes, 2 * parameter_bytes(updated, graph, ranks, rank))
              << name << " on rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

// The model with experts on two ranks has 13 parameters of 144 to 1440 elements; see the shapes in
// models/transformer_test.cpp.
TEST(Memory, IsLessWhereParametersAreSharded) {
  const Graph graph = model(true);
  const int64_t whole = parameter_bytes("dp", graph, 2, 0);
  EXPECT_GT(whole, 4 * graph.parameter_count());
  EXPECT_EQ(parameter_bytes("ps", graph, 2, 0), whole);
  EXPECT_EQ(parameter_bytes("ps", graph, 2, 1), 0);
  EXPECT_LT(parameter_bytes("fsdp", graph, 2, 1), whole * 55 / 100);
}

// All values sent to the server and from it lie there as a whole.
TEST(ParameterServer, EverythingIsOnTheFirstRank) {
  for (const bool experts : {false, true}) {
    const Program program = program_of(model(experts), "ps", {{"ranks", 3}}, 2048);
    int checked = 0;
    for (const Instruction& instruction : program.instructions) {
      const bool down = instruction.opcode == Opcode::broadcast;
      const bool up = instruction.opcode == Opcode::reduce_scatter;
      for (size_t k = 0; (down || up) && k < instruction.inputs.size(); ++k) {
        const ValueId stored = down ? instruction.inputs[k] : instruction.outputs[k];
        const int64_t bytes = 4 * elements(program.value(stored).shape);
        EXPECT_EQ(program.local_bytes(stored, 0), bytes) << program.value(stored).name;
        EXPECT_EQ(program.local_bytes(stored, 1), 0) << program.value(stored).name;
        EXPECT_EQ(program.local_bytes(stored, 2), 0) << program.value(stored).name;
        ++checked;
      }
    }
    EXPECT_EQ(checked, 1 + (experts ? 2 * 28 : 2 * 27));  // one more is the squared norm
  }
}

// FastMoE sends gradients after the backward pass, DeepSpeed during it.
TEST(ExpertParallel, SendsGradientsBesideTheBackwardPassOrBehindIt) {
  for (const char* name : {"ep-deepspeed", "ep-fastmoe"}) {
    const Program program = program_of(model(true), name, {{"ranks", 2}}, kNoBuckets);
    bool sent = false;
    bool computes_after = false;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.phase == Phase::backward) {
        sent |= instruction.opcode == Opcode::all_reduce;
        computes_after |= sent && instruction.stream == StreamKind::compute;
      }
    }
    EXPECT_TRUE(sent) << name;
    EXPECT_EQ(computes_after, std::string_view(name) == "ep-deepspeed") << name;
  }
}

// No message has a tensor with all of a batch's tokens and all of the vocabulary.
TEST(Megatron, NeverSendsLogits) {
  for (const char* name : {"megatron", "megatron-sp"}) {
    const Program program = program_of(model(false), name, {{"ranks", 2}}, kOneBucket);
    for (const Instruction& instruction : program.instructions) {
      for (size_t k = 0;
           !collective_of(instruction.opcode).empty() && k < instruction.inputs.size(); ++k) {
        EXPECT_NE(program.value(instruction.inputs[k]).shape, (Shape{5, 7, 31}))
            << instruction.name;
      }
    }
  }
}

TEST(NamedStrategies, AreAcceptedByTheVerifier) {
  const std::vector<Mesh> meshes = {
      {{"ranks", 1}}, {{"ranks", 2}}, {{"ranks", 3}}, {{"ranks", 4}}, {{"node", 2}, {"core", 2}}};
  for (const bool experts : {false, true}) {
    const Graph graph = model(experts);
    for (const NamedStrategy& named : named_strategies()) {
      for (const Mesh& mesh : meshes) {
        for (const int64_t bucket : {kNoBuckets, int64_t{2048}, kOneBucket}) {
          const std::string what = fmt::format("{} on {} ranks, {} axes, buckets of {}", named.name,
                                               ranks_of(mesh), mesh.size(), bucket);
          std::vector<std::string> issued;
          for (int64_t rank = 0; rank < ranks_of(mesh); ++rank) {
            const Program program = program_of(graph, named.name, mesh, bucket);
            EXPECT_NO_THROW(verify(program, plan_memory(program, rank))) << what;
            issued.push_back(print_collectives(program));
          }
          EXPECT_NO_THROW(verify_ranks_agree(issued)) << what;
          EXPECT_EQ(issued[0].empty(), ranks_of(mesh) == 1) << what;
        }
      }
    }
  }
}

TEST(NamedStrategies, EveryAxisIsUsedAlike) {
  const Graph graph = model(true);
  for (const NamedStrategy& named : named_strategies()) {
    if (named.of_stages) {  // one axis has the stages
      continue;
    }
    const Strategy strategy = named_strategy(named.name, graph, {{"node", 2}, {"core", 2}});
    EXPECT_EQ(strategy.name, named.name);
    for (const OpStrategy& op : strategy.ops) {
      ASSERT_EQ(op.rules.size(), 2U);
      EXPECT_EQ(op.rules[0], op.rules[1]);
    }
  }
}

// fsdp cuts the first dimension with an element for every rank of both axes, or else of one axis
// after the other.
TEST(NamedStrategies, FsdpCutsWhatEveryRankGetsAPartOf) {
  const Graph graph = model(true);
  const Strategy strategy = named_strategy("fsdp", graph, {{"node", 2}, {"core", 4}});
  std::map<std::string, std::string> storage;
  for (const ParameterStrategy& parameter : strategy.parameters) {
    storage[graph.tensor(parameter.tensor).name] = to_string(parameter.storage);
    EXPECT_EQ(parameter.storage, parameter.optimizer_state);
  }
  EXPECT_EQ(storage["embedding.weight"], "S(0) S(0)");               // 31, 12: 16 are left
  EXPECT_EQ(storage["layers.0.attention.qkv.bias"], "S(0) S(2)");    // 3, 3, 4: 2, 3, 4 are left
  EXPECT_EQ(storage["layers.0.attention.out.weight"], "S(2) S(2)");  // 3, 4, 12
  EXPECT_EQ(storage["layers.1.moe.experts.up.bias"], "S(1) S(1)");   // 5, 20
}

TEST(NamedStrategies, UnknownNamesAreRefusedWithTheNearest) {
  const Graph graph = model(false);
  const std::map<std::string, std::string> hints = {{"megatron_sp", " (did you mean megatron-sp?)"},
                                                    {"fsdp2", " (did you mean fsdp?)"},
                                                    {"zero3", " (did you mean zero1?)"},
                                                    {"quicksort", ""},
                                                    {"", ""}};
  for (const auto& [name, hint] : hints) {
    const std::string expected = fmt::format(
        "--strategy {}: there is no such strategy{}; there are dp, dp-ev, dp-cp, zero1, fsdp, "
        "fsdp-kept, hsdp, ep-deepspeed, ep-fastmoe, megatron, megatron-sp, ps, pipeline, min-comm",
        name, hint);
    try {
      named_strategy(name, graph, {{"ranks", 2}});
      FAIL() << "accepted: " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_EQ(error.what(), expected);
    }
    EXPECT_THROW(check_strategy_name(name), Error) << name;
  }
  for (const NamedStrategy& named : named_strategies()) {
    EXPECT_NO_THROW(check_strategy_name(named.name));
  }
}

TEST(NamedStrategies, AreAllInTheHelp) {
  EXPECT_EQ(strategy_names(),
            "dp, dp-ev, dp-cp, zero1, fsdp, fsdp-kept, hsdp, ep-deepspeed, ep-fastmoe, megatron, "
            "megatron-sp, ps, "
            "pipeline or min-comm");
  const std::string help = strategies_help();
  for (const NamedStrategy& named : named_strategies()) {
    EXPECT_NE(help.find(fmt::format("\n  {:<13} {} ({})", named.name, named.doc, named.source)),
              std::string::npos)
        << help;
    EXPECT_FALSE(named.doc.empty());
    EXPECT_FALSE(named.source.empty());
  }
}

}  // namespace
}  // namespace hidup
