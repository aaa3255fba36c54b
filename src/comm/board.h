// Where ranks agree on the largest of their times, without taking a core while they wait.
//
// In memory that the ranks of a host share, they sleep on a futex until the last one has come.
// Ranks of several hosts exchange 8 bytes each.
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

// The ranks that meet, ascending, by their numbers in the world.
using BoardRow = std::vector<int64_t>;

class Board {
 public:
  // Bytes of memory for so many rows.
  static int64_t bytes_of(size_t rows);

  // Collective. `rows`: the same on all ranks of the world, which outlives the board. `memory`:
  // Communicator::share_memory() of at least bytes_of(rows), not used before; ranks with one memory
  // count as a host.
  Board(Communicator& world, const std::vector<BoardRow>& rows, std::shared_ptr<std::byte> memory);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // The largest of what the row's ranks post, this rank among them. `doing` says for people what
  // they meet for: "all_reduce of x". Returns when all have come, each as often as it calls this;
  // one thread of a rank at a time. Throws Error(communication) after abandon() on any rank, and
  // where `stopped` is true, which it looks at now and then, after abandon() of its own. (Ranks of
  // several hosts wait in MPI: such a wait ends with the process.)
  int64_t largest(size_t row, int64_t mine, const std::function<bool()>& stopped,
                  const std::string& doing);

  // This rank comes no more. From any thread.
  void abandon();

 private:
  struct Header;
  struct Cell;
  struct Row {
    Cell* cell = nullptr;                 // of ranks of one host
    std::unique_ptr<Communicator> group;  // of ranks of several
    uint32_t ranks = 0;
    std::unique_ptr<Attendance> attendance;  // where the ranks do not meet in the group
  };

  int64_t meet(Cell& cell, uint32_t ranks, int64_t mine, const std::function<bool()>& stopped);
  void wait(Cell& cell, uint32_t held, const std::function<bool()>& stopped);

  std::shared_ptr<std::byte> memory_;
  Header* header_;
  Cell* cells_;
  std::vector<Row> rows_;
};

}  // namespace hidup
