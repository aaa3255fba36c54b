// Emulated times against a simulation of the same steps, instruction by instruction, and losses
// against those without emulation.
#include "runtime/emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/random.h"
#include "cost/play.h"
#include "cost/roofline.h"
#include "fake_ranks/fake_ranks.h"
#include "program/lower.h"
#include "search/named/named_strategies.h"
#include "search/named/pipeline.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

using Times = std::vector<Nanoseconds>;

// Starts and ends of all ranks' instructions, and the start of the next step.
struct SeenStep {
  std::vector<Times> starts;
  std::vector<Times> ends;
  Nanoseconds next = 0;

  bool operator==(const SeenStep&) const = default;
};

// Returns times up to a millisecond that depend on the rank and, a little, on the start.
EmulatedTimes random_times(int64_t rank, uint64_t seed) {
  const RandomStream random = random_stream(seed, "times", static_cast<uint64_t>(rank));
  return {.end_of =
              [random](int instruction, Nanoseconds start) {
                return start + 100 + random.word(static_cast<uint64_t>(instruction)) % 1'000'000 +
                       start % 17;
              },
          .launch = 3'000,
          .signal = 7'000,
          .overhead = 250'000};
}

// Simulates all ranks independently, once through the list. (cost/play.h is compared below.)
SeenStep simulate_step(const Program& program, uint64_t seed, Nanoseconds base) {
  const int64_t ranks = ranks_of(program.mesh);
  const Times zeros(program.instructions.size());
  SeenStep step{std::vector<Times>(static_cast<size_t>(ranks), zeros),
                std::vector<Times>(static_cast<size_t>(ranks), zeros), base};
  std::vector<std::array<Nanoseconds, kStreams>> free(static_cast<size_t>(ranks), {-1, -1, -1, -1});
  const EmulatedTimes costs = random_times(0, seed);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    Times ready(static_cast<size_t>(ranks));
    const auto is_skipped = [&](int of, size_t rank) {
      return skips(program, program.instructions[static_cast<size_t>(of)],
                   static_cast<int64_t>(rank));
    };
    for (size_t r = 0; r < ready.size(); ++r) {
      const Nanoseconds before = free[r][static_cast<size_t>(instruction.stream)];
      ready[r] = before < 0 ? base : before + costs.launch;
      if (is_skipped(static_cast<int>(i), r)) {
        ready[r] = before < 0 ? base : before;
        continue;
      }
      for (const int wait : instruction.waits) {
        if (!is_skipped(wait, r)) {
          ready[r] = std::max(ready[r], step.ends[r][static_cast<size_t>(wait)] + costs.signal);
        }
      }
    }
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      Nanoseconds start = ready[r];
      if (is_skipped(static_cast<int>(i), r)) {
        step.starts[r][i] = step.ends[r][i] = start;
        continue;
      }
      if (!collective_of(instruction.opcode).empty()) {
        for (const int64_t other : collective_group(program, instruction, rank)) {
          start = std::max(start, ready[static_cast<size_t>(other)]);
        }
      }
      const Nanoseconds end = random_times(rank, seed).end_of(static_cast<int>(i), start);
      step.starts[r][i] = start;
      step.ends[r][i] = end;
      free[r][static_cast<size_t>(instruction.stream)] = end;
      step.next = std::max(step.next, end);
    }
  }
  step.next += costs.overhead;
  return step;
}

// A few emulated steps, and their program.
struct EmulatedRun {
  Program program;
  std::vector<SeenStep> steps;
  ShortRun run;
};

// Stands for a name: a random strategy with shares, whose number is that of the microbatches.
constexpr const char* kShares = "shares";

struct Case {
  std::string model;
  std::string strategy;
  int64_t ranks = 2;
  int microbatches = 1;

  Graph graph() const {
    return model == "moe" ? strategy_model("bert", "top2", 5) : strategy_model(model);
  }
  Strategy chosen() const {
    if (strategy == kShares) {
      return random_strategy_with_shares(graph(), ranks, static_cast<uint64_t>(microbatches));
    }
    const Mesh mesh = strategy_mesh(ranks, static_cast<uint64_t>(microbatches));
    const size_t slash = strategy.find('/');  // before the schedule of a pipeline
    Strategy found = named_strategy(strategy.substr(0, slash), graph(), mesh);
    found.microbatches = microbatches;
    if (slash != std::string::npos) {
      found.accumulate = 3;
      found = with_stages(graph(), found,
                          {.axis = found.schedule->axis, .name = strategy.substr(slash + 1)});
    }
    return found;
  }
  std::string name() const {
    return fmt::format("{} {}, {} ranks, k = {}", model, strategy, ranks, microbatches);
  }
};

using TimesOf = std::function<EmulatedTimes(const Program& program, int64_t rank)>;

EmulatedRun emulate(const Case& tried, int steps, const TimesOf& times,
                    const std::function<void(Program&)>& change = nullptr) {
  EmulatedRun found;
  std::mutex mutex;
  const auto ranks = static_cast<size_t>(tried.ranks);
  found.steps.resize(static_cast<size_t>(steps),
                     {std::vector<Times>(ranks), std::vector<Times>(ranks)});
  run_ranks(static_cast<int>(tried.ranks), [&](Communicator& world) {
    const auto r = static_cast<size_t>(world.rank());
    const Emulation emulation = {.times = times, .change = change};
    const ShortRun run = run_emulated(
        tried.graph(), tried.chosen(), world, steps, kStrategyVocab, emulation,
        [&](Executor& executor, int step) {
          if (step == 0) {
            return;
          }
          const Emulator& emulator = *executor.emulator();
          const std::lock_guard lock(mutex);
          found.program = executor.program();
          SeenStep& played = found.steps[static_cast<size_t>(step) - 1];
          played.starts[r] = {emulator.starts().begin(), emulator.starts().end()};
          played.ends[r] = {emulator.ends().begin(), emulator.ends().end()};
          EXPECT_TRUE(played.next == 0 || played.next == emulator.step().next);
          played.next = emulator.step().next;
          EXPECT_EQ(executor.times()[0].start_s, 1e-9 * static_cast<double>(played.starts[r][0]));
        });
    if (world.rank() == 0) {
      found.run = run;
    }
  });
  return found;
}

EmulatedRun emulate(const Case& tried, int steps, uint64_t seed,
                    const std::function<void(Program&)>& change = nullptr) {
  const auto times = [seed](const Program&, int64_t rank) { return random_times(rank, seed); };
  return emulate(tried, steps, times, change);
}

// Returns the first difference; empty where all times are equal.
std::string difference(const Program& program, const SeenStep& found, const SeenStep& wanted) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (size_t r = 0; r < wanted.ends.size(); ++r) {
      if (found.starts[r][i] != wanted.starts[r][i] || found.ends[r][i] != wanted.ends[r][i]) {
        return fmt::format("{} on rank {}: {} to {}, not {} to {}", program.instructions[i].name, r,
                           found.starts[r][i], found.ends[r][i], wanted.starts[r][i],
                           wanted.ends[r][i]);
      }
    }
  }
  return found.next == wanted.next
             ? ""
             : fmt::format("the next step starts at {}, not {}", found.next, wanted.next);
}

void expect_simulated(const EmulatedRun& run, uint64_t seed, const std::string& what) {
  Nanoseconds base = 0;
  for (size_t step = 0; step < run.steps.size(); ++step) {
    const SeenStep wanted = simulate_step(run.program, seed, base);
    ASSERT_EQ(difference(run.program, run.steps[step], wanted), "")
        << what << ", step " << step + 1;
    base = wanted.next;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t ranks : {2, 3, 4}) {
    for (const int microbatches : {1, 2, 4}) {
      for (const char* strategy : {"dp", "fsdp", "megatron"}) {
        all.push_back({"gpt", strategy, ranks, microbatches});
      }
      all.push_back({"moe", "ep-deepspeed", ranks, microbatches});
      all.push_back({"gpt", kShares, ranks, microbatches});
      all.push_back({"moe", kShares, ranks, microbatches + 10});
      if (microbatches < 4) {
        all.push_back(
            {"gpt", microbatches == 1 ? "pipeline/1f1b" : "pipeline/zb-h1", ranks, microbatches});
      }
    }
  }
  return all;
}

class EmulatedSteps : public testing::Test {
 protected:
  void SetUp() override {
    if (device_kind() != "cpu") {
      GTEST_SKIP() << "only CPU ranks emulate";
    }
  }
};

TEST_F(EmulatedSteps, GivesEveryInstructionItsSimulatedTime) {
  for (const Case& tried : cases()) {
    const uint64_t seed = 17 + static_cast<uint64_t>(tried.microbatches);
    expect_simulated(emulate(tried, 3, seed), seed, tried.name());
  }
}

// Returns durations with unequal devices and a link that varies in time.
Durations some_durations(const Program& program) {
  std::vector<CostModel> classes;
  std::vector<size_t> class_of_rank;
  for (size_t rank = 0; rank < static_cast<size_t>(ranks_of(program.mesh)); ++rank) {
    MachineRates rates{.flops = 1e8, .memory_bandwidth = 3e7};
    rates.links.assign(program.mesh.size(), {.bandwidth = 2e7, .latency_s = 5e-5});
    Profile profile = roofline_profile(program.mesh, rates);
    perturb(profile, 0.5, rank);
    profile.launch_s = 4e-6;
    profile.signal_s = 9e-6;
    profile.overhead_s = 1e-4;
    classes.emplace_back(profile);
    class_of_rank.push_back(rank);
  }
  const BandwidthTrace trace(
      2e7, {{.for_s = 3e-3, .bandwidth = 2e7}, {.for_s = 2e-3, .bandwidth = 5e6}});
  return {program, RankCosts(classes, class_of_rank), {program.mesh.size(), trace}};
}

TEST_F(EmulatedSteps, GivesEveryInstructionTheTimeOfPlay) {
  for (const Case& tried : cases()) {
    if (tried.microbatches == 4) {
      continue;
    }
    const auto times = [](const Program& program, int64_t rank) {
      const auto durations = std::make_shared<const Durations>(some_durations(program));
      return EmulatedTimes{.end_of =
                               [durations, rank](int instruction, Nanoseconds start) {
                                 return durations->end_of(instruction, rank, start);
                               },
                           .launch = durations->launch(),
                           .signal = durations->signal(),
                           .overhead = durations->overhead()};
    };
    const EmulatedRun run = emulate(tried, 3, times);
    const Durations durations = some_durations(run.program);
    Nanoseconds base = 0;
    for (const SeenStep& seen : run.steps) {
      const PlayedStep played = play(run.program, durations, base);
      SeenStep wanted{.next = played.end + durations.overhead()};
      for (const std::vector<PlayedInstruction>& rank : played.ranks) {
        Times& starts = wanted.starts.emplace_back();
        Times& ends = wanted.ends.emplace_back();
        for (const PlayedInstruction& instruction : rank) {
          starts.push_back(instruction.start);
          ends.push_back(instruction.end);
        }
      }
      ASSERT_EQ(difference(run.program, seen, wanted), "") << tried.name();
      base = wanted.next;
    }
  }
}

TEST_F(EmulatedSteps, LeavesTheNumbersAsTheyAre) {
  for (const Case& tried : cases()) {
    if (tried.ranks != 3) {
      continue;
    }
    ShortRun plain;
    run_ranks(static_cast<int>(tried.ranks), [&](Communicator& world) {
      const ShortRun run = run_steps(tried.graph(), tried.chosen(), world, 3, kStrategyVocab);
      if (world.rank() == 0) {
        plain = run;
      }
    });
    EXPECT_EQ(emulate(tried, 3, 5).run, plain) << tried.name();
  }
}

// The emulator gets durations, not starts. The numbers of such runs mean nothing.
TEST_F(EmulatedSteps, MovesAsTheSimulationWhereAWaitIsMissing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "without the wait, two threads use the same memory";
#endif
  constexpr uint64_t kSeed = 23;
  for (const Case& tried :
       {Case{"gpt", "dp", 2, 2}, Case{"gpt", "fsdp", 3, 2}, Case{"gpt", "megatron", 4, 2}}) {
    const EmulatedRun whole = emulate(tried, 1, kSeed);
    int moved = 0;
    int removed = 0;
    for (size_t i = 0; i < whole.program.instructions.size(); ++i) {
      for (size_t w = 0; w < whole.program.instructions[i].waits.size(); ++w) {
        const EmulatedRun run = emulate(tried, 1, kSeed, [=](Program& program) {
          std::vector<int>& waits = program.instructions[i].waits;
          waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
        });
        expect_simulated(run, kSeed, fmt::format("{} without a wait of {}", tried.name(), i));
        ++removed;
        moved += run.steps == whole.steps ? 0 : 1;
      }
    }
    EXPECT_GT(removed, 5);
    EXPECT_GT(moved, removed / 4) << "of " << removed << ": " << tried.name();
  }
}

// Work that fails on one rank frees the others, which wait for it at the board.
TEST_F(EmulatedSteps, AFailedStreamEndsAllRanks) {
  const Case tried{"gpt", "dp", 3, 1};
  const auto run = [&](Communicator& world) {
    const Emulation emulation = {.times = [&](const Program& program, int64_t rank) {
      EmulatedTimes times = random_times(rank, 3);
      const auto last = static_cast<int>(program.instructions.size()) - 1;
      if (rank == 1) {
        times.end_of = [last, end_of = times.end_of](int instruction, Nanoseconds start) {
          if (instruction == last / 2 && start > 0) {
            fail(ExitCode::internal, "the work of instruction {} fails", instruction);
          }
          return end_of(instruction, start);
        };
      }
      return times;
    }};
    const auto wanted = world.rank() == 1 ? ExitCode::internal : ExitCode::communication;
    try {
      run_emulated(tried.graph(), tried.chosen(), world, 2, kStrategyVocab, emulation, nullptr);
      ADD_FAILURE() << "rank " << world.rank() << " is content";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), wanted) << error.what();
      throw;  // ends the others' wait for a message
    }
  };
  EXPECT_THROW(run_ranks(3, run), Error);
}

}  // namespace
}  // namespace hidup
