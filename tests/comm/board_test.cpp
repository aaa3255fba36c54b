// Ranks that fail while others wait for them at the board. (Its results are tested in
// tests/fake_ranks/board_cases.cpp.)
#include "comm/board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "core/check.h"
#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

using namespace std::chrono_literals;

bool never() {
  return false;
}

Board make_board(Communicator& world) {
  const std::vector<BoardRow> rows = {{0, 1, 2}, {0, 2}};
  return {world, rows, world.share_memory(Board::bytes_of(rows.size()))};
}

void expect_lost(Board& board, size_t row, const std::function<bool()>& stopped) {
  try {
    board.largest(row, 1, stopped, "a test");
    ADD_FAILURE() << "a meeting was held without a rank";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::communication);
  }
}

// Ranks are freed even if their own row lacks the rank that left.
TEST(Board, ARankThatLeavesFreesAllOthers) {
  run_ranks(3, [](Communicator& world) {
    Board board = make_board(world);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(20ms);  // the others wait
      board.abandon();
    } else {
      expect_lost(board, world.rank() == 0 ? 0 : 1, never);
    }
    world.barrier();
  });
}

TEST(Board, AWaitEndsWhereTheRankIsStopped) {
  run_ranks(3, [](Communicator& world) {
    Board board = make_board(world);
    std::atomic<bool> failed = false;
    if (world.rank() != 0) {  // rank 1 sees the failure, rank 2 that of rank 1
      std::thread other([&] {
        std::this_thread::sleep_for(20ms);
        failed = world.rank() == 1;
      });
      expect_lost(board, 0, [&] { return failed.load(); });
      other.join();
    }
    world.barrier();
  });
}

TEST(Board, AMeetingThatWasHeldCounts) {
  run_ranks(3, [](Communicator& world) {
    Board board = make_board(world);
    EXPECT_EQ(board.largest(0, world.rank(), never, "a test"), 2);
    world.barrier();
    board.abandon();
    expect_lost(board, world.rank() == 1 ? 0 : 1, never);
  });
}

TEST(Board, OtherRanksRowsAreRefused) {
  run_ranks(3, [](Communicator& world) {
    Board board = make_board(world);
    if (world.rank() == 1) {
      EXPECT_THROW(board.largest(1, 0, never, "a test"), Error);
    }
    world.barrier();
  });
}

}  // namespace
}  // namespace hidup
