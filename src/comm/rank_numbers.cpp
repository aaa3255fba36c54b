#include "comm/rank_numbers.h"

#include <mutex>
#include <utility>

namespace hidup {
namespace {

struct Numbers {
  std::mutex mutex;
  std::vector<int> of_rank;  // empty: mpirun's
};
Numbers& numbers() {  // never destroyed, because the watchdog's thread may end last of all
  static auto* const numbers = new Numbers;
  return *numbers;
}

}  // namespace

int number_of_rank(int mpi_rank) {
  const std::lock_guard lock(numbers().mutex);
  const std::vector<int>& known = numbers().of_rank;
  return known.empty() ? mpi_rank : known.at(static_cast<size_t>(mpi_rank));
}

void number_ranks(std::vector<int> of_rank) {
  const std::lock_guard lock(numbers().mutex);
  numbers().of_rank = std::move(of_rank);
}

}  // namespace hidup
