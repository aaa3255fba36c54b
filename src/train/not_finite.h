// The origin of numbers that are not finite.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"
#include "runtime/executor.h"

namespace hidup {

// Collective, after a step with `found` ("the loss is nan"): repeats the step one instruction at a
// time, and throws a CollectiveError(not_finite): "FOUND: the first output that is not finite is
// that of INSTRUCTION on rank 2".
[[noreturn]] void fail_not_finite(Executor& executor, Communicator& world, int64_t step,
                                  double learning_rate, const StepInputs& inputs,
                                  const std::string& found, const std::string& advice = "");

}  // namespace hidup
