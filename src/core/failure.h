// What an exception of any kind means for the process: an exit code and a line for people.
#pragma once

#include <string>

#include "core/check.h"

namespace hidup {

struct Failure {
  ExitCode code;
  std::string message;
};

// Of the exception that is being handled: to be called in a catch block, or where an exception that
// nobody catches ends the process. An Error has its own code. Memory and threads that the system
// refuses are out_of_memory, files are file, and all else is an internal error.
Failure current_failure();

// Keeps some memory back, which the first current_failure() frees: a process that has no memory
// left can still say so, and bring down others.
void reserve_memory_for_failure();

}  // namespace hidup
