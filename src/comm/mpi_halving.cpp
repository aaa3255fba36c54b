#include <algorithm>
#include <memory>

#include "comm/counts.h"
#include "comm/mpi_algorithms.h"

namespace hidup {
namespace {

// Bytes of the copies in a reduce-scatter, which stay in a core's cache.
constexpr int64_t kCopies = int64_t{1} << 20;

// The blocks of all ranks in rank order, in contiguous memory.
class Blocks {
 public:
  Blocks(void* data, const std::vector<int64_t>& counts, int64_t bytes)
      : data_(data), starts_(starts_of(counts)), bytes_(bytes) {}

  // Returns `number` blocks from `first` on; the first block follows the last.
  std::vector<Run> from(int first, int number) const {
    const int end = first + number;
    const int ranks = static_cast<int>(starts_.size()) - 1;
    return {between(first, std::min(end, ranks)), between(0, std::max(0, end - ranks))};
  }
  Run of(int block) const { return between(block, block + 1); }

 private:
  Run between(int begin, int end) const {
    const int64_t start = starts_[static_cast<size_t>(begin)];
    return {at(data_, start, bytes_), starts_[static_cast<size_t>(end)] - start};
  }

  void* data_;
  std::vector<int64_t> starts_;
  int64_t bytes_;
};

// Returns the blocks that a rank sends in a step: fewer than `distance` in the last step.
int moved_blocks(int distance, int ranks) {
  return std::min(distance, ranks - distance);
}

// Replaces every rank's own block by the sum; leaves partial sums in the other blocks.
void scatter_sums(MpiMessages& messages, const Blocks& blocks, const Elements& elements,
                  const std::string& doing) {
  const int size = messages.size();
  int distance = 1;
  while (2 * distance < size) {
    distance *= 2;
  }
  for (; distance >= 1; distance /= 2) {
    const int number = moved_blocks(distance, size);
    messages.exchange_and_add(blocks.from(messages.after(distance), number),
                              messages.after(distance), blocks.from(messages.rank(), number),
                              messages.after(-distance), elements, doing);
  }
}

void gather(MpiMessages& messages, const Blocks& blocks, int64_t bytes, const std::string& doing) {
  const int size = messages.size();
  for (int distance = 1; distance < size; distance *= 2) {
    const int number = moved_blocks(distance, size);
    messages.exchange(blocks.from(messages.rank(), number), messages.after(-distance),
                      blocks.from(messages.after(distance), number), messages.after(distance),
                      bytes, doing);
  }
}

}  // namespace

void halving_all_reduce(MpiMessages& messages, void* data, int64_t count, const Elements& elements,
                        const std::string& doing) {
  const int64_t size = messages.size();
  std::vector<int64_t> counts;
  for (int64_t b = 0; b < size; ++b) {
    counts.push_back(count * (b + 1) / size - count * b / size);
  }
  const Blocks blocks(data, counts, elements.bytes);
  scatter_sums(messages, blocks, elements, doing);
  gather(messages, blocks, elements.bytes, doing);
}

void halving_all_gather(MpiMessages& messages, const void* send, void* receive,
                        const std::vector<int64_t>& counts, int64_t bytes,
                        const std::string& doing) {
  const Blocks blocks(receive, counts, bytes);
  const Run own = blocks.of(messages.rank());
  copy_now(own.data, send, own.count, bytes);
  gather(messages, blocks, bytes, doing);
}

void halving_reduce_scatter(MpiMessages& messages, const void* send, void* receive,
                            const std::vector<int64_t>& counts, const Elements& elements,
                            const std::string& doing) {
  const int64_t limit = std::max<int64_t>(
      1, std::min(kCopies / elements.bytes, messages.max_piece()) / messages.size());
  const int64_t longest = *std::max_element(counts.begin(), counts.end());
  const std::vector<int64_t> starts = starts_of(counts);
  const auto copies = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<size_t>(std::min(limit, longest) * messages.size() * elements.bytes));
  for (int64_t done = 0; done < longest; done += limit) {
    std::vector<int64_t> pieces;
    pieces.reserve(counts.size());
    for (const int64_t count : counts) {
      pieces.push_back(std::clamp<int64_t>(count - done, 0, limit));
    }
    const Blocks blocks(copies.get(), pieces, elements.bytes);
    for (int b = 0; b < messages.size(); ++b) {
      copy_now(blocks.of(b).data, at(send, starts[static_cast<size_t>(b)] + done, elements.bytes),
               blocks.of(b).count, elements.bytes);
    }
    scatter_sums(messages, blocks, elements, doing);
    const Run own = blocks.of(messages.rank());
    copy_now(at(receive, done, elements.bytes), own.data, own.count, elements.bytes);
  }
}

}  // namespace hidup
