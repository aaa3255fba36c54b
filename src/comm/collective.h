// Host work that all ranks do together.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "core/check.h"

namespace hidup {

// An Error that every rank throws at the same place, so that all can end MPI in order. Its message
// is empty on all ranks except the one that reports it.
class CollectiveError : public Error {
 public:
  using Error::Error;
};

// Runs `work` on every rank. If it throws on any rank, all ranks throw a CollectiveError with the
// code of the lowest such rank (core/failure.h); only that rank's error has a message.
void collectively(Communicator& world, const std::function<void()>& work);

// Returns the texts of all ranks in rank order on rank 0, and nothing on the other ranks.
std::vector<std::string> gather_texts(Communicator& world, std::string_view mine);

}  // namespace hidup
