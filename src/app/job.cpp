#include "app/job.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "app/launch.h"
#include "comm/collective.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/results.h"
#include "runtime/executor.h"

namespace hidup {

int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work,
            Versions versions) {
  const std::vector<char*> arguments(*argv + 1, *argv + *argc);  // before MPI sees them
  std::optional<MpiSession> mpi;
  try {
    mpi.emplace(argc, argv);
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.message.empty()) {  // another rank prints it
      return static_cast<int>(failure.code);
    }
    abort_all_ranks(failure.code, failure.message);
  }
  try {
    check_same_arguments(mpi->world(), arguments);
    if (versions == Versions::same) {
      check_same_version(mpi->world(), version_text());
    }
    const ExitCode code = work(*mpi);
    collectively(mpi->world(), results::finish);
    return static_cast<int>(code);
  } catch (const CollectiveError& error) {
    if (*error.what() != '\0') {
      log::error(error.what());
    }
    constexpr double kSeconds = 5.0;  // all ranks are at the same place
    mpi->end_within(kSeconds);
    return static_cast<int>(error.code());
  }
}

Heartbeat::Guide guide_of_start(MpiSession& mpi) {
  return {mpi.heartbeat(), [] { return Progress{}; },
          [](const Progress&) { return std::string("starting"); }};
}

namespace {

// Describes a rank's position in the steps.
std::string describe(const Progress& progress, const std::string& unit, const Executor& executor) {
  if (progress.step == 0) {
    return "starting";
  }
  if (progress.instruction == Executor::kUntimed) {
    return fmt::format("in {} {}", unit, progress.step);
  }
  if (progress.instruction < 0) {
    return fmt::format("at the end of {} {}", unit, progress.step);
  }
  return fmt::format(
      "in {} {}, at {}", unit, progress.step,
      executor.program().instructions.at(static_cast<size_t>(progress.instruction)).name);
}

}  // namespace

void run_steps(MpiSession& mpi, const std::string& unit, const std::function<int64_t()>& current,
               const Executor& executor, const std::function<void()>& work) {
  const Heartbeat::Guide guide(
      mpi.heartbeat(),
      [&] {
        return Progress{current(), executor.current_instruction()};
      },
      [&](const Progress& progress) { return describe(progress, unit, executor); });
  try {
    work();
  } catch (const CollectiveError&) {
    throw;
  } catch (...) {
    const Failure failure = current_failure();
    abort_all_ranks(failure.code, fmt::format("{} {}: {}", unit, current(), failure.message));
  }
}

}  // namespace hidup
