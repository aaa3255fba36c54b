// Microbatches interleave: one computes while another communicates.
#include <gtest/gtest.h>

#include <algorithm>

#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "program/print.h"
#include "program/verify.h"
#include "sample.h"

namespace hidup {
namespace {

Program program_of(std::string_view name, int microbatches, int64_t ranks = 2,
                   int64_t bucket_bytes = 2048) {
  Deck deck = sample_deck();
  deck.model->moe = {.experts = 3, .every = 2, .router = "top2", .capacity_factor = 1.25};
  const Graph graph = build_model(deck, 31);
  Strategy strategy = named_strategy(name, graph, {{"ranks", ranks}});
  strategy.microbatches = microbatches;
  return lower(graph, strategy, sample_options(bucket_bytes));
}

double total(const Program& program, double Instruction::*member, StreamKind stream) {
  double sum = 0.0;
  for (const Instruction& instruction : program.instructions) {
    const bool counts = instruction.stream == stream && instruction.phase != Phase::update;
    sum += counts ? instruction.*member : 0.0;
  }
  return sum;
}

// Returns the microbatches of the forward pass's collectives, in the order of issue.
std::vector<int> microbatches_that_send(const Program& program) {
  std::vector<int> order;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::forward && instruction.stream == StreamKind::comm &&
        instruction.microbatch >= 0) {
      order.push_back(instruction.microbatch);
    }
  }
  return order;
}

TEST(Duplex, MicrobatchesTakeTurnsOnTheLink) {
  // A microbatch has three all-to-alls: buffers and counts to the experts, which are one stage, and
  // buffers back.
  EXPECT_EQ(microbatches_that_send(program_of("ep-deepspeed", 2)),
            (std::vector<int>{0, 0, 1, 1, 0, 1}));
}

// While a microbatch waits for its collective, the others compute.
TEST(Duplex, WhileOneSendsAnotherComputes) {
  const Program program = program_of("megatron", 2);
  int hidden = 0;
  int collectives = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& sends = program.instructions[i];
    if (sends.stream != StreamKind::comm || sends.microbatch < 0 || sends.phase != Phase::forward ||
        sends.waits.empty()) {
      continue;
    }
    ++collectives;
    // Work of the other microbatch neither precedes nor follows from this collective.
    for (size_t k = static_cast<size_t>(sends.waits[0]) + 1; k < program.instructions.size(); ++k) {
      const Instruction& other = program.instructions[k];
      if (other.stream == StreamKind::compute) {
        hidden += other.microbatch == 1 - sends.microbatch ? 1 : 0;
        break;
      }
    }
  }
  EXPECT_GT(collectives, 6);
  // Nothing is left to hide the last stage of the last microbatch.
  EXPECT_GE(hidden, collectives - 2);
}

// Where parameters are gathered in buckets, the second microbatch begins before the first one ends:
// both compute with a bucket while the next is on its way.
TEST(Duplex, MicrobatchesTakeTurnsAtEveryBucketOfParameters) {
  const Program program = program_of("fsdp", 2);
  std::vector<int> turns;  // of computation in the forward pass
  int buckets = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase != Phase::forward) {
      continue;
    }
    buckets += instruction.opcode == Opcode::all_gather ? 1 : 0;
    if (instruction.stream == StreamKind::compute && instruction.microbatch >= 0 &&
        (turns.empty() || turns.back() != instruction.microbatch)) {
      turns.push_back(instruction.microbatch);
    }
  }
  EXPECT_GT(buckets, 3);
  EXPECT_GE(turns.size(), 2 * static_cast<size_t>(buckets));
}

int forward_stages(const Program& program) {
  int stages = 0;
  for (const Instruction& instruction : program.instructions) {
    stages = instruction.phase == Phase::forward ? std::max(stages, instruction.stage + 1) : stages;
  }
  return stages;
}

// Where microbatches communicate between buckets, buckets start no stages, and all computation up
// to the next communication can hide it.
TEST(Duplex, BucketsLeaveComputationToTheCommunicationOfMicrobatches) {
  const Graph graph = build_model(sample_deck(), 31);
  const Mesh mesh = {{"node", 2}, {"gpu", 2}};
  const auto program = [&](std::string_view name) {
    Strategy strategy = named_strategy(name, graph, mesh);
    strategy.microbatches = 2;
    return lower(graph, strategy, sample_options(4096));
  };
  const Program gathers = program("node=megatron,gpu=fsdp");
  const auto is_gather = [](const Instruction& instruction) {
    return instruction.phase == Phase::forward && instruction.opcode == Opcode::all_gather;
  };
  EXPECT_GE(std::ranges::count_if(gathers.instructions, is_gather), 6);
  // The additional stage is the first bucket's, before all communication.
  EXPECT_EQ(forward_stages(gathers), forward_stages(program("node=megatron,gpu=dp")) + 1);
}

std::vector<Opcode> forward_opcodes(const Program& program, int microbatch) {
  std::vector<Opcode> opcodes;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::forward && instruction.microbatch == microbatch) {
      opcodes.push_back(instruction.opcode);
    }
  }
  return opcodes;
}

// Gathers of parameters, which only the first microbatch's list has, separate fusable instructions.
TEST(Duplex, MicrobatchesAreFusedAlike) {
  const Graph graph = build_model(sample_deck(), 31);
  const Mesh mesh = {{"node", 2}, {"gpu", 2}};
  for (const char* name :
       {"node=dp,gpu=fsdp", "node=megatron,gpu=fsdp", "node=megatron-sp,gpu=fsdp-kept"}) {
    Strategy strategy = named_strategy(name, graph, mesh);
    strategy.microbatches = 2;
    for (const int64_t bucket_bytes : {1, 1024, 2048, 4096}) {
      const Program program = lower(graph, strategy, sample_options(bucket_bytes));
      EXPECT_EQ(forward_opcodes(program, 0), forward_opcodes(program, 1))
          << name << " " << bucket_bytes;
    }
  }
}

TEST(Duplex, TheWorkIsTheSame) {
  const Program one = program_of("dp", 1);
  for (const int microbatches : {2, 3, 5}) {
    const Program parts = program_of("dp", microbatches);
    EXPECT_NEAR(total(parts, &Instruction::flops, StreamKind::compute) /
                    total(one, &Instruction::flops, StreamKind::compute),
                1.0, 0.01);
    EXPECT_EQ(total(parts, &Instruction::bytes, StreamKind::comm),
              total(one, &Instruction::bytes, StreamKind::comm));
  }
}

// Parameters are gathered once and gradients sent once, whatever the number of microbatches.
TEST(Duplex, ParametersAndGradientsAreSentOnce) {
  for (const char* name : {"dp", "zero1", "fsdp", "ps"}) {
    EXPECT_EQ(print_collectives(program_of(name, 1)), print_collectives(program_of(name, 4)))
        << name;
  }
}

TEST(Duplex, IsProvenForEveryStrategyAndNumber) {
  for (const NamedStrategy& named : named_strategies()) {
    for (const int microbatches : {1, 2, 3, 4, 7}) {
      for (const int64_t ranks : {1, 2, 4}) {
        const Program program = program_of(named.name, microbatches, ranks);
        for (int64_t rank = 0; rank < ranks; ++rank) {
          EXPECT_NO_THROW(verify(program, plan_memory(program, rank)))
              << named.name << " in " << microbatches << " on " << ranks;
        }
      }
    }
  }
}

// Ranks get even parts of the batch, though a microbatch does not divide.
TEST(Duplex, RanksShareTheBatchEvenly) {
  const Program program = program_of("dp", 3, 4);  // 5 sequences: 2, 2, 1
  std::vector<int64_t> sequences(4, 0);
  for (const ValueId tokens : program.tokens) {
    for (int64_t rank = 0; rank < 4; ++rank) {
      sequences[static_cast<size_t>(rank)] += program.local_shape(tokens, rank)[0];
    }
  }
  EXPECT_EQ(sequences, (std::vector<int64_t>{2, 1, 1, 1}));
}

TEST(Duplex, TakesNoMoreMemory) {
  for (const char* name : {"dp", "zero1", "ep-deepspeed", "megatron", "megatron-sp"}) {
    const auto bytes = [&](int microbatches) {
      Deck deck = sample_deck(6);
      deck.model->hidden = 48;
      deck.model->ffn = 192;
      deck.model->sequence = 64;
      deck.train->batch = 8;
      const Graph graph = build_model(deck, 256);
      Strategy strategy = named_strategy(name, graph, {{"ranks", 2}});
      strategy.microbatches = microbatches;
      return static_cast<double>(
          plan_memory(lower(graph, strategy, sample_options(16384)), 0).bytes);
    };
    EXPECT_LE(bytes(2), 1.02 * bytes(1)) << name;
  }
}

}  // namespace
}  // namespace hidup
