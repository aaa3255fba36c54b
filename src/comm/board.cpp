#include "comm/board.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <limits>
#include <utility>

#include "core/check.h"

namespace hidup {
namespace {

constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 100'000'000};  // between polls of `stopped`

template <typename T>
using Atomic = std::atomic_ref<T>;
// Atomics with a lock would work in one process only.
static_assert(Atomic<int64_t>::is_always_lock_free && Atomic<uint32_t>::is_always_lock_free);

[[noreturn]] void fail_alone() {
  fail(ExitCode::communication, "a rank does not come, because of another failure");
}

void raise_to(int64_t& place, int64_t value) {
  Atomic<int64_t> largest(place);
  int64_t seen = largest.load(std::memory_order_relaxed);
  while (seen < value && !largest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// Waits for a change of the word, which several processes may share. Returns now and then, too.
void futex_wait(uint32_t& word, uint32_t expected) {
  const long status = syscall(SYS_futex, &word, FUTEX_WAIT, expected, &kLook, nullptr, 0);
  if (status != 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) {
    fail(ExitCode::internal, "a wait for other ranks: {}", std::strerror(errno));
  }
}

void futex_wake_all(uint32_t& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct alignas(64) Board::Header {
  int64_t first;  // the number of all ranks less the first rank of the host
  uint32_t abandoned;
};

// Successive meetings use different maxima: when one ends, all ranks have left the one before.
struct alignas(64) Board::Cell {
  int64_t largest[2];
  uint32_t came;  // ranks that came to this meeting
  uint32_t held;  // meetings that ended
};

int64_t Board::bytes_of(size_t rows) {
  return static_cast<int64_t>(sizeof(Header) + rows * sizeof(Cell));
}

Board::Board(Communicator& world, const std::vector<BoardRow>& rows,
             std::shared_ptr<std::byte> memory)
    : memory_(std::move(memory)),
      header_(reinterpret_cast<Header*>(memory_.get())),
      cells_(reinterpret_cast<Cell*>(memory_.get() + sizeof(Header))),
      rows_(rows.size()) {
  raise_to(header_->first, world.size() - world.rank());
  world.barrier();
  const int64_t first = world.size() - Atomic<int64_t>(header_->first).load();
  if (first == world.rank()) {
    for (size_t row = 0; row < rows.size(); ++row) {
      std::ranges::fill(cells_[row].largest, std::numeric_limits<int64_t>::min());
    }
  }
  const std::vector<int64_t> hosts = all_gather_value(world, first);  // by rank
  for (size_t row = 0; row < rows.size(); ++row) {
    const BoardRow& members = rows[row];
    const auto host_of = [&](int64_t rank) { return hosts.at(static_cast<size_t>(rank)); };
    const bool one_host = std::ranges::all_of(
        members, [&](int64_t rank) { return host_of(rank) == host_of(members.front()); });
    const bool is_member = std::ranges::find(members, world.rank()) != members.end();
    std::unique_ptr<Communicator> group = one_host ? nullptr : world.split(is_member ? 0 : 1);
    if (is_member) {
      rows_[row] = {&cells_[row], std::move(group), static_cast<uint32_t>(members.size()),
                    std::make_unique<Attendance>(std::vector<int>(members.begin(), members.end()))};
    }
  }
}

Board::~Board() = default;

int64_t Board::largest(size_t row, int64_t mine, const std::function<bool()>& stopped,
                       const std::string& doing) {
  const Row& found = rows_.at(row);
  check(found.ranks > 0, "a rank comes to row {} of the board, which others have", row);
  if (found.group != nullptr) {
    return std::ranges::max(all_gather_value(*found.group, mine));
  }
  if (found.ranks == 1) {
    return mine;
  }
  const Attendance::Visit visit(*found.attendance, doing);
  return meet(*found.cell, found.ranks, mine, stopped);
}

int64_t Board::meet(Cell& cell, uint32_t ranks, int64_t mine,
                    const std::function<bool()>& stopped) {
  if (Atomic<uint32_t>(header_->abandoned).load() != 0) {
    fail_alone();
  }
  Atomic<uint32_t> held(cell.held);
  const uint32_t now = held.load(std::memory_order_acquire);  // grows only after this rank came
  int64_t& largest = cell.largest[now % 2];
  raise_to(largest, mine);
  if (Atomic<uint32_t>(cell.came).fetch_add(1, std::memory_order_acq_rel) + 1 < ranks) {
    wait(cell, now, stopped);
  } else {
    Atomic<int64_t>(cell.largest[1 - now % 2])
        .store(std::numeric_limits<int64_t>::min(), std::memory_order_relaxed);
    Atomic<uint32_t>(cell.came).store(0, std::memory_order_relaxed);
    held.store(now + 1, std::memory_order_release);
    futex_wake_all(cell.held);
  }
  return Atomic<int64_t>(largest).load(std::memory_order_relaxed);
}

void Board::wait(Cell& cell, uint32_t held, const std::function<bool()>& stopped) {
  const auto over = [&] {
    return Atomic<uint32_t>(cell.held).load(std::memory_order_acquire) != held;
  };
  while (!over()) {
    if (stopped()) {
      abandon();
    }
    if (Atomic<uint32_t>(header_->abandoned).load() != 0 && !over()) {
      fail_alone();
    }
    futex_wait(cell.held, held);
  }
}

void Board::abandon() {
  Atomic<uint32_t>(header_->abandoned).store(1);
  for (size_t row = 0; row < rows_.size(); ++row) {
    futex_wake_all(cells_[row].held);
  }
}

}  // namespace hidup
