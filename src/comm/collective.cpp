#include "comm/collective.h"

#include <algorithm>
#include <span>

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

std::vector<std::string> gather_texts(Communicator& world, std::string_view mine) {
  std::vector<std::string> texts;
  for (const std::vector<std::byte>& bytes : world.gather(std::as_bytes(std::span(mine)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

}  // namespace hidup
