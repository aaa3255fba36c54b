#include "train/collective.h"

#include <algorithm>

#include "core/failure.h"

namespace hidup {

void collectively(Communicator& world, const std::function<void()>& work) {
  Failure mine{ExitCode::done, ""};
  try {
    work();
  } catch (...) {
    mine = current_failure();
  }
  const std::vector<int> codes = all_gather_value(world, static_cast<int>(mine.code));
  const auto first = std::ranges::find_if(codes, [](int c) { return c != 0; });
  if (first != codes.end()) {
    const bool reports = first - codes.begin() == world.rank();
    throw CollectiveError(static_cast<ExitCode>(*first), reports ? mine.message : "");
  }
}

}  // namespace hidup
