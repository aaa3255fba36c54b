#include "checkpoint/exchange.h"

#include <algorithm>
#include <numeric>

#include "checkpoint/crc32c.h"
#include "checkpoint/header.h"
#include "checkpoint/runs.h"
#include "comm/collective.h"

namespace hidup {
namespace {

// Blocks that all ranks together exchange at once.
constexpr size_t kBlocksAtOnce = 64;

// A write of this many bytes takes much longer than the call.
constexpr int64_t kLongRun = int64_t{64} << 10;

// Returns true if a rank holds a tensor in so many small pieces that writing them takes long.
bool is_scattered(const StoredTensor& tensor, size_t index,
                  const std::vector<std::vector<Region>>& boxes) {
  return hidup::bytes_of(tensor) >= kBlockBytes &&
         std::ranges::any_of(boxes, [&](const std::vector<Region>& of_rank) {
           const Region& box = of_rank[index];
           return box.contiguous_run() * size_of(tensor.dtype) < kLongRun &&
                  box.contiguous_run() < box.elements();
         });
}

}  // namespace

BlockExchange::BlockExchange(const std::vector<StoredTensor>& tensors,
                             const std::vector<std::vector<Region>>& boxes,
                             const std::vector<Share>& shares, int writers)
    : tensors_(tensors),
      boxes_(boxes),
      shares_(shares),
      writers_(static_cast<size_t>(writers)),
      window_(std::max<size_t>(kBlocksAtOnce / writers_, 1)) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = hidup::bytes_of(tensors[i]);
    exchanged_.push_back(writers == 1 || is_scattered(tensors[i], i, boxes));
    for (int64_t at = 0; exchanged_[i] && at < bytes; at += kBlockBytes) {
      blocks_.push_back({i, at, std::min(bytes - at, kBlockBytes)});
    }
  }
  for (const Share& share : shares) {
    std::vector<Part>& parts = part_of_.emplace_back(tensors.size());
    for (const Part& part : share.parts) {
      parts[part.tensor] = part;
    }
  }
}

BlockExchange::Window BlockExchange::window(size_t round, size_t rank) const {
  const size_t first = std::min((round * writers_ + rank) * window_, blocks_.size());
  return rank < writers_ ? Window(blocks_).subspan(first, std::min(window_, blocks_.size() - first))
                         : Window();
}

BlockExchange::Elements BlockExchange::elements_of(size_t rank, const Block& block) const {
  const Part& part = part_of_[rank][block.tensor];
  if (part.count == 0) {
    return {0, 0};
  }
  const Region& box = boxes_[rank][block.tensor];
  const int64_t size = size_of(tensors_[block.tensor].dtype);
  const int64_t first = std::max(first_from(box, block.at / size), part.first);
  const int64_t end =
      std::min(first_from(box, (block.at + block.bytes) / size), part.first + part.count);
  return {first, std::max<int64_t>(end - first, 0)};
}

int64_t BlockExchange::bytes_of(size_t rank, Window blocks) const {
  int64_t bytes = 0;
  for (const Block& block : blocks) {
    bytes += elements_of(rank, block).count * size_of(tensors_[block.tensor].dtype);
  }
  return bytes;
}

// Visits a rank's pieces of a block: visit(byte in the block, byte in its share, bytes), in order.
template <typename Visit>
void BlockExchange::for_each_piece(size_t rank, const Block& block, const Visit& visit) const {
  const Elements own = elements_of(rank, block);
  const Part& part = part_of_[rank][block.tensor];
  const int64_t size = size_of(tensors_[block.tensor].dtype);
  for_each_run(boxes_[rank][block.tensor], own.first, own.count,
               [&](int64_t global, int64_t local, int64_t count) {
                 visit(global * size - block.at, part.at + (local - part.first) * size,
                       count * size);
               });
}

void BlockExchange::pack(size_t rank, Window blocks, std::span<const std::byte> copied,
                         std::vector<std::byte>& packed) const {
  for (const Block& block : blocks) {
    for_each_piece(rank, block, [&](int64_t, int64_t from, int64_t bytes) {
      packed.insert(packed.end(), copied.begin() + from, copied.begin() + from + bytes);
    });
  }
}

void BlockExchange::write(Window blocks, std::span<const std::byte> received,
                          const std::vector<int64_t>& counts, TensorWriter& writer) const {
  std::vector<std::byte> whole(static_cast<size_t>(kBlockBytes));
  std::vector<int64_t> taken(counts.size());  // bytes taken of `received`, per rank
  std::exclusive_scan(counts.begin(), counts.end(), taken.begin(), int64_t{0});
  for (const Block& block : blocks) {
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      for_each_piece(rank, block, [&](int64_t to, int64_t, int64_t bytes) {
        std::copy_n(received.begin() + taken[rank], bytes, whole.begin() + to);
        taken[rank] += bytes;
      });
    }
    writer.write(block.tensor, block.at, std::span(whole).first(static_cast<size_t>(block.bytes)));
  }
}

void BlockExchange::run(Communicator& group, std::span<const std::byte> copied,
                        TensorWriter* writer) const {
  const auto self = static_cast<size_t>(group.rank());
  const size_t at_once = writers_ * window_;
  const size_t rounds = (blocks_.size() + at_once - 1) / at_once;
  std::vector<std::byte> send;
  std::vector<std::byte> received;
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<int64_t> send_counts;
    std::vector<int64_t> counts;
    send.clear();
    for (size_t rank = 0; rank < shares_.size(); ++rank) {
      pack(self, window(round, rank), copied, send);
      send_counts.push_back(bytes_of(self, window(round, rank)));
      counts.push_back(bytes_of(rank, window(round, self)));
    }
    received.resize(static_cast<size_t>(std::reduce(counts.begin(), counts.end())));
    group.exchange(send, send_counts, received, counts);
    collectively(group, [&] {
      if (writer != nullptr) {
        write(window(round, self), received, counts, *writer);
      }
    });
  }
}

}  // namespace hidup
