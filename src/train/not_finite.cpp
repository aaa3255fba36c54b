#include "train/not_finite.h"

#include <fmt/format.h>

#include <vector>

#include "comm/collective.h"
#include "program/print.h"

namespace hidup {

void fail_not_finite(Executor& executor, Communicator& world, int64_t step, double learning_rate,
                     const StepInputs& inputs, const std::string& found,
                     const std::string& advice) {
  const int64_t mine = executor.find_not_finite(step, learning_rate, inputs);
  const std::vector<int64_t> all = all_gather_value(world, mine);
  int64_t first = -1;
  size_t rank = 0;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r] >= 0 && (first < 0 || all[r] < first)) {
      first = all[r];
      rank = r;
    }
  }
  std::string message;
  if (world.rank() == 0) {
    const std::string where =
        first < 0 ? "repeated one instruction after the other, all outputs are finite"
                  : fmt::format("the first output that is not finite is that of {} on rank {}",
                                describe(executor.program(), static_cast<int>(first)), rank);
    message = fmt::format("{}: {}{}", found, where, advice);
  }
  throw CollectiveError(ExitCode::not_finite, message);
}

}  // namespace hidup
