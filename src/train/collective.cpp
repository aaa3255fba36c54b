#include "train/collective.h"

#include <algorithm>
#include <new>

namespace hidup {

void collectively(Communicator& world, const std::function<void()>& work) {
  int code = 0;
  std::string message;
  try {
    work();
  } catch (const Error& error) {
    code = static_cast<int>(error.code());
    message = error.what();
  } catch (const std::bad_alloc&) {
    code = static_cast<int>(ExitCode::out_of_memory);
    message = "out of host memory";
  }
  const std::vector<int> codes = all_gather_value(world, code);
  const auto first = std::ranges::find_if(codes, [](int c) { return c != 0; });
  if (first != codes.end()) {
    const bool reports = first - codes.begin() == world.rank();
    throw CollectiveError(static_cast<ExitCode>(*first), reports ? message : "");
  }
}

}  // namespace hidup
