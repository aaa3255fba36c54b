#include "comm/mpi_windows.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "comm/counts.h"
#include "comm/mpi_check.h"
#include "comm/mpi_shared_memory.h"
#include "comm/patient_yield.h"

namespace hidup {
namespace {

constexpr int64_t kCacheLine = 64;  // bytes of a cache line
// Bytes that a rank copies in a turn, which stay in its cache; very many ranks need more.
constexpr int64_t kPart = int64_t{1} << 19;
constexpr int64_t kCached = int64_t{1} << 14;  // bytes that stay in the L1 cache
constexpr int64_t kSumAll = int64_t{1} << 15;  // bytes of all ranks up to which each sums all
constexpr int kLooks = 2000;                   // before the first yield: some microseconds

std::vector<const void*> shifted(const std::vector<std::byte*>& places, int64_t offset) {
  std::vector<const void*> found;
  found.reserve(places.size());
  for (const std::byte* place : places) {
    found.push_back(place + offset);
  }
  return found;
}

}  // namespace

// A rank's state for the others. The two entries of `turns` alternate like the halves of its part.
struct alignas(kCacheLine) MpiWindows::Line {
  uint64_t meetings;  // to which the rank came
  int64_t turns[2];   // that the rank needs
  int64_t memory;     // index in memories_ of the memory that holds its data; -1: none
  int64_t offset;
};

MpiWindows::MpiWindows(MPI_Comm group, int64_t max_piece) : group_(group), max_piece_(max_piece) {
  static_assert(sizeof(Line) == kCacheLine);
  static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);  // locks work in one process only
  check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
  part_bytes_ = std::max(kPart, size_ * kCacheLine);
  memory_ = share_host_memory(group_, size_ * (kCacheLine + 2 * part_bytes_));
  lines_ = reinterpret_cast<Line*>(memory_.get());
}

std::byte* MpiWindows::part(int rank, uint64_t turn) const {
  const int64_t number = 2 * int64_t{rank} + static_cast<int64_t>(turn % 2);
  return memory_.get() + size_ * kCacheLine + number * part_bytes_;
}

int64_t MpiWindows::part_length(int64_t bytes) const {
  return std::min(part_bytes_ / bytes, max_piece_);
}

int64_t MpiWindows::piece_length(int64_t bytes) const {
  return std::max<int64_t>(1, part_length(bytes) / size_);
}

bool MpiWindows::all_came() const {
  return std::ranges::all_of(std::span(lines_, static_cast<size_t>(size_)), [this](Line& line) {
    return std::atomic_ref(line.meetings).load(std::memory_order_acquire) >= meetings_;
  });
}

void MpiWindows::meet(const std::string& doing) {
  begin_wait();
  ++meetings_;
  std::atomic_ref(lines_[rank_].meetings).store(meetings_, std::memory_order_release);
  for (int look = 0; !all_came(); ++look) {
    if (look >= kLooks) {
      // Lets MPI progress here: a message for another rank may leave this one only meanwhile.
      int found = 0;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group_, &found, MPI_STATUS_IGNORE), doing);
      sched_yield();
    }
  }
}

std::vector<const void*> MpiWindows::summands(const void* own, int64_t offset) const {
  std::vector<const void*> found;
  found.reserve(static_cast<size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    found.push_back(r == rank_ ? own : part(r, turn_) + offset);
  }
  return found;
}

std::vector<std::byte*> MpiWindows::places(const void* data, int64_t count, int64_t bytes,
                                           const std::string& doing) {
  if (memories_.empty()) {
    return {};
  }
  Line& own = lines_[rank_];
  own.memory = count == 0 ? 0 : -1;  // without elements any memory will do
  own.offset = 0;
  for (size_t m = 0; own.memory < 0 && m < memories_.size(); ++m) {
    own.offset = memories_[m]->offset_of(data, count * bytes);
    own.memory = own.offset < 0 ? -1 : static_cast<int64_t>(m);
  }
  meet(doing);
  std::vector<std::byte*> found;
  for (int r = 0; r < size_ && lines_[r].memory >= 0; ++r) {
    found.push_back(memories_[static_cast<size_t>(lines_[r].memory)]->at(r, lines_[r].offset));
  }
  return std::ssize(found) == size_ ? found : std::vector<std::byte*>();
}

void MpiWindows::all_reduce(void* data, int64_t count, const Elements& elements,
                            const std::string& doing) {
  if (count == 0) {
    return;
  }
  if (count * elements.bytes * size_ <= kSumAll) {
    sum_all(data, count, elements, doing);
  } else if (const auto all = places(data, count, elements.bytes, doing); !all.empty()) {
    sum_in_place(all, count, elements, doing);
  } else {
    sum_slices(data, count, elements, doing);
  }
}

// Works in blocks, so that a sum is still in a cache when it is copied.
void MpiWindows::sum_in_place(const std::vector<std::byte*>& places, int64_t count,
                              const Elements& elements, const std::string& doing) {
  const int64_t block = kCached / elements.bytes;
  const int64_t end = count * (rank_ + 1) / size_;
  for (int64_t done = count * rank_ / size_; done < end; done += block) {
    const int64_t here = std::min(block, end - done);
    const auto self = static_cast<size_t>(rank_);
    std::byte* const own = at(places[self], done, elements.bytes);
    elements.sum(own, shifted(places, done * elements.bytes), here);
    for (size_t r = 0; r < places.size(); ++r) {
      copy_now(at(places[r], done, elements.bytes), own, r == self ? 0 : here, elements.bytes);
    }
  }
  meet(doing);
}

void MpiWindows::sum_all(void* data, int64_t count, const Elements& elements,
                         const std::string& doing) {
  const int64_t length = part_length(elements.bytes);
  for (int64_t done = 0; done < count; done += length) {
    const int64_t here = std::min(length, count - done);
    std::byte* const own = at(data, done, elements.bytes);
    ++turn_;
    copy_now(part(rank_, turn_), own, here, elements.bytes);
    meet(doing);
    elements.sum(own, summands(own, 0), here);
  }
}

// A rank's result replaces its own slice, which it need not copy. So the next turn's slices can be
// copied before the meeting that makes the results visible.
void MpiWindows::sum_slices(void* data, int64_t count, const Elements& elements,
                            const std::string& doing) {
  const int64_t bytes = elements.bytes;
  const int64_t piece = piece_length(bytes);
  struct Slice {
    std::byte* data;
    int64_t count;
    int64_t offset;  // bytes, in a part
  };
  const auto slice_of = [&](int rank, int64_t done) -> Slice {
    const int64_t length = std::min(piece * size_, count - done);
    const int64_t start = length * rank / size_;
    return {at(data, done + start, bytes), length * (rank + 1) / size_ - start,
            rank * piece * bytes};
  };
  const auto give_slices = [&](int64_t done, uint64_t turn) {
    for (int r = 0; r < size_; ++r) {
      const Slice slice = slice_of(r, done);
      copy_now(part(rank_, turn) + slice.offset, slice.data, r == rank_ ? 0 : slice.count, bytes);
    }
  };
  const auto take_slices = [&](int64_t done) {
    for (int r = 0; r < size_; ++r) {
      const Slice slice = slice_of(r, done);
      copy_now(slice.data, part(r, turn_) + slice.offset, r == rank_ ? 0 : slice.count, bytes);
    }
  };
  give_slices(0, ++turn_);
  meet(doing);
  for (int64_t done = 0; done < count; done += piece * size_) {
    const Slice own = slice_of(rank_, done);
    elements.sum(own.data, summands(own.data, own.offset), own.count);
    copy_now(part(rank_, turn_) + own.offset, own.data, own.count, bytes);
    const bool more = done + piece * size_ < count;
    if (more) {
      give_slices(done + piece * size_, turn_ + 1);
    }
    meet(doing);
    take_slices(done);
    turn_ += more ? 1 : 0;  // a skipped turn would give one half to two successive turns
  }
}

void MpiWindows::all_gather(const void* send, void* receive, const std::vector<int64_t>& counts,
                            int64_t bytes, const std::string& doing) {
  const std::vector<int64_t> starts = starts_of(counts);
  const auto self = static_cast<size_t>(rank_);
  copy_now(at(receive, starts[self], bytes), send, counts[self], bytes);
  if (const auto all = places(send, counts[self], bytes, doing); !all.empty()) {
    for (size_t r = 0; r < counts.size(); ++r) {
      copy_now(at(receive, starts[r], bytes), all[r], r == self ? 0 : counts[r], bytes);
    }
    meet(doing);
    return;
  }
  const int64_t length = part_length(bytes);
  const int64_t longest = std::ranges::max(counts);
  for (int64_t done = 0; done < longest; done += length) {
    const auto here = [&](size_t r) { return std::clamp<int64_t>(counts[r] - done, 0, length); };
    ++turn_;
    copy_now(part(rank_, turn_), at(send, done, bytes), here(self), bytes);
    meet(doing);
    for (size_t r = 0; r < counts.size(); ++r) {
      copy_now(at(receive, starts[r] + done, bytes), part(static_cast<int>(r), turn_),
               r == self ? 0 : here(r), bytes);
    }
  }
}

void MpiWindows::reduce_scatter(const void* send, void* receive, const std::vector<int64_t>& counts,
                                const Elements& elements, const std::string& doing) {
  const int64_t bytes = elements.bytes;
  const int64_t piece = piece_length(bytes);
  const std::vector<int64_t> starts = starts_of(counts);
  const auto self = static_cast<size_t>(rank_);
  if (const auto all = places(send, starts.back(), bytes, doing); !all.empty()) {
    if (counts[self] > 0) {
      elements.sum(receive, shifted(all, starts[self] * bytes), counts[self]);
    }
    meet(doing);
    return;
  }
  const int64_t longest = std::ranges::max(counts);
  for (int64_t done = 0; done < longest; done += piece) {
    const auto here = [&](size_t r) { return std::clamp<int64_t>(counts[r] - done, 0, piece); };
    ++turn_;
    for (size_t r = 0; r < counts.size(); ++r) {
      copy_now(part(rank_, turn_) + static_cast<int64_t>(r) * piece * bytes,
               at(send, starts[r] + done, bytes), r == self ? 0 : here(r), bytes);
    }
    meet(doing);
    if (here(self) > 0) {
      elements.sum(at(receive, done, bytes),
                   summands(at(send, starts[self] + done, bytes), rank_ * piece * bytes),
                   here(self));
    }
  }
}

// Ranks know only the lengths of their own pieces, so they tell each other their numbers of turns.
void MpiWindows::all_to_all(const void* send, const std::vector<int64_t>& send_counts,
                            void* receive, const std::vector<int64_t>& receive_counts,
                            int64_t bytes, const std::string& doing) {
  const int64_t piece = piece_length(bytes);
  const std::vector<int64_t> send_starts = starts_of(send_counts);
  const std::vector<int64_t> receive_starts = starts_of(receive_counts);
  const auto self = static_cast<size_t>(rank_);
  copy_now(at(receive, receive_starts[self], bytes), at(send, send_starts[self], bytes),
           send_counts[self], bytes);
  if (!memories_.empty()) {
    ++turn_;
    std::ranges::copy(send_starts, reinterpret_cast<int64_t*>(part(rank_, turn_)));
  }
  if (const auto all = places(send, send_starts.back(), bytes, doing); !all.empty()) {
    for (size_t r = 0; r < all.size(); ++r) {
      const auto* const starts = reinterpret_cast<const int64_t*>(part(static_cast<int>(r), turn_));
      copy_now(at(receive, receive_starts[r], bytes), at(all[r], starts[self], bytes),
               r == self ? 0 : receive_counts[r], bytes);
    }
    meet(doing);
    return;
  }
  int64_t turns = (std::ranges::max(send_counts) + piece - 1) / piece;
  for (int64_t turn = 0; turn == 0 || turn < turns; ++turn) {
    const auto here = [&](const std::vector<int64_t>& counts, size_t r) {
      return r == self ? 0 : std::clamp<int64_t>(counts[r] - turn * piece, 0, piece);
    };
    ++turn_;
    for (size_t r = 0; r < send_counts.size(); ++r) {
      copy_now(part(rank_, turn_) + static_cast<int64_t>(r) * piece * bytes,
               at(send, send_starts[r] + turn * piece, bytes), here(send_counts, r), bytes);
    }
    lines_[rank_].turns[turn_ % 2] = turns;
    meet(doing);
    for (int r = 0; turn == 0 && r < size_; ++r) {
      turns = std::max(turns, lines_[r].turns[turn_ % 2]);
    }
    for (size_t r = 0; r < receive_counts.size(); ++r) {
      copy_now(at(receive, receive_starts[r] + turn * piece, bytes),
               part(static_cast<int>(r), turn_) + rank_ * piece * bytes, here(receive_counts, r),
               bytes);
    }
  }
}

}  // namespace hidup
