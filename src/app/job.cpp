#include "app/job.h"

#include <optional>

#include "comm/collective.h"
#include "core/failure.h"
#include "core/log.h"
#include "core/results.h"

namespace hidup {
namespace {

constexpr double kEndAfterFailure = 5.0;  // seconds: all ranks are at the same place

}  // namespace

int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work) {
  std::optional<MpiSession> mpi;
  try {
    mpi.emplace(argc, argv);
  } catch (...) {
    const Failure failure = current_failure();
    if (failure.message.empty()) {  // another rank says it
      return static_cast<int>(failure.code);
    }
    abort_all_ranks(failure.code, failure.message);
  }
  try {
    const ExitCode code = work(*mpi);
    collectively(mpi->world(), results::finish);
    return static_cast<int>(code);
  } catch (const CollectiveError& error) {
    if (*error.what() != '\0') {
      log::error(error.what());
    }
    mpi->end_within(kEndAfterFailure);
    return static_cast<int>(error.code());
  }
}

}  // namespace hidup
