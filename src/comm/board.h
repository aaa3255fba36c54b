// A board where ranks find the maximum of their times without using a core while they wait.
//
// Ranks of one host sleep on a futex in shared memory. Ranks of several hosts exchange 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/attendance.h"
#include "comm/communicator.h"

namespace hidup {

// The ranks that meet, in ascending order of their numbers in the world.
using BoardRow = std::vector<int64_t>;

class Board {
 public:
  // Returns the bytes of memory that so many rows need.
  static int64_t bytes_of(size_t rows);

  // Collective. `rows`: the same on all ranks of the world, which outlives the board. `memory`:
  // unused memory from share_memory() of bytes_of(rows) or more; ranks that share it count as one
  // host.
  Board(Communicator& world, const std::vector<BoardRow>& rows, std::shared_ptr<std::byte> memory);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Returns the maximum of the values that the ranks of the row post, including this rank. `doing`
  // tells people the purpose: "all_reduce of x". Blocks until every rank has called it as often as
  // this one. One thread of a rank may call it at a time. Throws Error(communication) after
  // abandon() on any rank. It polls `stopped`, and if that returns true it calls abandon() and
  // throws, too. (Ranks of several hosts wait in MPI: only the end of the process ends such a
  // wait.)
  int64_t largest(size_t row, int64_t mine, const std::function<bool()>& stopped,
                  const std::string& doing);

  // Announces that this rank comes no more. Any thread may call it.
  void abandon();

 private:
  struct Header;
  struct Cell;
  struct Row {
    Cell* cell = nullptr;                 // for ranks of one host
    std::unique_ptr<Communicator> group;  // for ranks of several hosts
    uint32_t ranks = 0;
    std::unique_ptr<Attendance> attendance;  // for ranks that do not meet in `group`
  };

  int64_t meet(Cell& cell, uint32_t ranks, int64_t mine, const std::function<bool()>& stopped);
  void wait(Cell& cell, uint32_t held, const std::function<bool()>& stopped);

  std::shared_ptr<std::byte> memory_;
  Header* header_;
  Cell* cells_;
  std::vector<Row> rows_;
};

}  // namespace hidup
