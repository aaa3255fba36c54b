#include "board_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "comm/board.h"

namespace hidup {
namespace {

constexpr int64_t kMeetings = 300;

bool never() {
  return false;
}

// Returns rows of all ranks (twice), neighbours, the even ranks, the others, and single ranks.
std::vector<BoardRow> rows_of(int64_t ranks) {
  BoardRow all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), int64_t{0});
  std::vector<BoardRow> rows = {all, all};
  for (int64_t first = 0; first < ranks; ++first) {
    rows.push_back({first});
    if (first + 1 < ranks) {
      rows.push_back({first, first + 1});
    }
  }
  for (const int64_t parity : {0, 1}) {
    BoardRow& row = rows.emplace_back();
    std::ranges::copy_if(all, std::back_inserter(row),
                         [=](int64_t rank) { return rank % 2 == parity; });
  }
  return rows;
}

// Returns the number that a rank posts in a meeting of a row: also negative, falling and rising.
int64_t posted(int64_t rank, size_t row, int64_t meeting) {
  return (rank * 7919 + static_cast<int64_t>(row) * 104729 + meeting * 15485863) % 100003 - 50000;
}

int64_t largest_of(const BoardRow& members, size_t row, int64_t meeting) {
  std::vector<int64_t> values;
  for (const int64_t rank : members) {
    values.push_back(posted(rank, row, meeting));
  }
  return std::ranges::max(values);
}

void meet_in_all_rows(Communicator& world, const std::shared_ptr<std::byte>& memory) {
  const std::vector<BoardRow> rows = rows_of(world.size());
  Board board(world, rows, memory);
  int64_t wrong = 0;
  for (int64_t meeting = 0; meeting < kMeetings; ++meeting) {
    for (size_t row = 0; row < rows.size(); ++row) {
      if (std::ranges::find(rows[row], world.rank()) != rows[row].end()) {
        const int64_t largest =
            board.largest(row, posted(world.rank(), row, meeting), never, "a test");
        wrong += largest != largest_of(rows[row], row, meeting) ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

int64_t bytes_for(const Communicator& world) {
  return Board::bytes_of(rows_of(world.size()).size());
}

}  // namespace

void a_board_gives_each_row_its_largest(Communicator& world) {
  meet_in_all_rows(world, world.share_memory(bytes_for(world)));
  // Memory is shared as if each rank had its own host, then as if two ranks had one.
  meet_in_all_rows(world, zeroed_memory(bytes_for(world)));
  const std::unique_ptr<Communicator> pair = world.split(world.rank() / 2);
  meet_in_all_rows(world, pair->share_memory(bytes_for(world)));
}

// All ranks of these tests run on one host. (NCCL's groups do not share a rank's memory.)
void memory_is_shared_by_the_ranks_of_a_host(Communicator& world) {
  constexpr int64_t kBytes = 100;
  const std::shared_ptr<std::byte> memory = world.share_memory(kBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 64, 0U);
  std::vector<std::byte> seen(kBytes);
  std::memcpy(seen.data(), memory.get(), kBytes);
  EXPECT_EQ(std::ranges::count(seen, std::byte{0}), kBytes);
  world.barrier();
  memory.get()[world.rank()] = static_cast<std::byte>(world.rank() + 1);
  world.barrier();
  int64_t others = 0;
  for (int64_t rank = 0; rank < world.size(); ++rank) {
    others += memory.get()[rank] == static_cast<std::byte>(rank + 1) ? 1 : 0;
  }
  EXPECT_EQ(others, world.size());
  world.barrier();
}

}  // namespace hidup
