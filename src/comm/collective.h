// What all ranks do together on the host.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "core/check.h"

namespace hidup {

// An Error that every rank throws at the same place: all can end MPI in order.
// Its message is empty on all ranks but the one that reports it.
class CollectiveError : public Error {
 public:
  using Error::Error;
};

// Runs `work` on every rank. If it throws anything on any, all ranks throw a
// CollectiveError with the lowest such rank's code (core/failure.h), and that rank has its
// message.
void collectively(Communicator& world, const std::function<void()>& work);

// Every rank's text in the order of ranks on rank 0; nothing on the others.
std::vector<std::string> gather_texts(Communicator& world, std::string_view mine);

}  // namespace hidup
