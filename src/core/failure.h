// Translation of exceptions into exit codes and messages.
#pragma once

#include <string>

#include "core/check.h"

namespace hidup {

struct Failure {
  ExitCode code;
  std::string message;
};

// Returns the exit code and message of the exception that is being handled. Call it in a catch
// block, or where an exception that nobody catches ends the process. An Error has its own code;
// refused memory and threads give out_of_memory, file errors give file, all others give internal.
Failure current_failure();

// Reserves memory that the first current_failure() frees, so that a process without memory can
// still report its failure and end others.
void reserve_memory_for_failure();

}  // namespace hidup
