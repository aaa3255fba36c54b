#include "saved_run.h"

#include "checkpoint/checkpoint.h"
#include "core/check.h"
#include "fake_ranks/fake_ranks.h"
#include "strategy_cases.h"
#include "train/persistent.h"

namespace hidup {
namespace {

// Returns rank 0's results.
ShortRun run_on_threads(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                        const std::function<AfterStep(Communicator& world)>& after, int done) {
  ShortRun found;
  run_ranks(ranks, [&](Communicator& world) {
    // Runs before the checkpoint and after it differ in how they compute experts' rows.
    const bool in_rounds = (ranks % 2 == 0) == (done == 0);
    const ShortRun run =
        run_steps(graph, strategy, world, steps, kStrategyVocab, after(world), done,
                  {.expert_slack = in_rounds ? std::optional(1.0) : std::nullopt});
    if (world.rank() == 0) {
      found = run;
    }
  });
  return found;
}

}  // namespace

ShortRun run_saved(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                   const SavedAt& saved) {
  const auto save = [&](Communicator& world) {
    return [&saved, &world](Executor& executor, int step) {
      if (step == saved.step) {
        const PersistentValues kept = persistent_values(executor.program(), world.rank());
        CheckpointWriter writer(world, {.folder = saved.folder}, kept.tensors, kept.regions);
        writer.save({.step = step}, [&](size_t i, int64_t first, int64_t count, std::byte* to) {
          executor.read(kept.values[i], first, count, to);
        });
        check(writer.wait().succeeded, "the checkpoint was not written");
      }
    };
  };
  return run_on_threads(graph, strategy, ranks, steps, save, 0);
}

std::vector<double> resume(const Graph& graph, const Strategy& strategy, int ranks, int steps,
                           const SavedAt& saved) {
  const auto load = [&](Communicator& world) {
    return [&saved, &world](Executor& executor, int step) {
      if (step == saved.step) {
        restore(world, executor,
                open_checkpoint(world, saved.folder + checkpoint_name(saved.step)));
      }
    };
  };
  return run_on_threads(graph, strategy, ranks, steps, load, saved.step).losses;
}

}  // namespace hidup
