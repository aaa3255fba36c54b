#include "checkpoint/stream.h"

#include <algorithm>
#include <utility>

#include "checkpoint/crc32c.h"
#include "checkpoint/runs.h"

namespace hidup {
namespace {

// The disk follows in pieces of this size: small files on the same disk need not wait long for
// their turn, and the end need not wait for all.
constexpr int64_t kFlushBytes = int64_t{32} << 20;

}  // namespace

void PartWriter::write(const std::vector<Region>& boxes, const Share& share, int64_t from,
                       std::span<const std::byte> bytes) {
  const int64_t to = from + static_cast<int64_t>(bytes.size());
  // The last part that begins at `from` or before, if there is one.
  auto part = std::ranges::upper_bound(share.parts, from, {}, &Part::at);
  part -= part == share.parts.begin() ? 0 : 1;
  for (; part != share.parts.end() && part->at < to; ++part) {
    const int64_t size = size_of(tensors_[part->tensor].dtype);
    const int64_t first = std::max<int64_t>((from - part->at) / size, 0);
    const int64_t last = std::min(part->count, (to - part->at) / size);
    for_each_run(boxes[part->tensor], part->first + first, std::max<int64_t>(last - first, 0),
                 [&](int64_t global, int64_t local, int64_t count) {
                   const int64_t at = part->at + (local - part->first) * size - from;
                   write_run(
                       part->tensor, global * size,
                       bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(count * size)));
                 });
    end_block();
  }
}

void PartWriter::write_run(size_t tensor, int64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {  // as far as the block goes: what was just read is still in the cache
    const auto left = static_cast<size_t>(kBlockBytes - at % kBlockBytes);
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), left));
    const auto count = static_cast<int64_t>(piece.size());
    add_crc(tensor, at, piece);
    file_.write(places_[tensor] + at, piece);
    pace(places_[tensor] + at, count);
    at += count;
    bytes = bytes.subspan(piece.size());
  }
}

// Of bytes within one block.
void PartWriter::add_crc(size_t tensor, int64_t at, std::span<const std::byte> bytes) {
  const int64_t block = at / kBlockBytes;
  if (crc_end_ == 0 || block != now_.block) {
    end_block();
    now_ = {static_cast<uint32_t>(tensor), 0, block};
    crc_end_ = at;
  }
  now_.crc = linear_crc(linear_crc_of_zeros(now_.crc, at - crc_end_), bytes);
  crc_end_ = at + static_cast<int64_t>(bytes.size());
}

void PartWriter::end_block() {
  if (crc_end_ > 0) {
    const int64_t end = std::min(bytes_of(tensors_[now_.tensor]), (now_.block + 1) * kBlockBytes);
    now_.crc = linear_crc_of_zeros(now_.crc, end - crc_end_);
    crcs_.push_back(now_);
    crc_end_ = 0;
  }
}

void PartWriter::pace(int64_t at, int64_t count) {
  const int64_t begin = fresh_bytes_ == 0 ? at : std::min(fresh_.place, at);
  const int64_t end =
      fresh_bytes_ == 0 ? at + count : std::max(fresh_.place + fresh_.bytes, at + count);
  fresh_ = {begin, end - begin};
  fresh_bytes_ += count;
  if (fresh_bytes_ >= kFlushBytes) {
    file_.start_flush(fresh_.place, fresh_.bytes);
    file_.finish_flush(flushing_.place, flushing_.bytes);
    flushing_ = std::exchange(fresh_, {});
    fresh_bytes_ = 0;
  }
}

void PartWriter::finish() {
  file_.flush();
}

std::vector<uint32_t> complete_crcs(const StoredTensor& tensor,
                                    const std::vector<uint32_t>& linear) {
  std::vector<uint32_t> crcs;
  const int64_t bytes = bytes_of(tensor);
  const uint32_t of_zeros = complete_crc(0, kBlockBytes);
  for (size_t block = 0; block < linear.size(); ++block) {
    const int64_t length = std::min(bytes - static_cast<int64_t>(block) * kBlockBytes, kBlockBytes);
    crcs.push_back(linear[block] ^ (length == kBlockBytes ? of_zeros : complete_crc(0, length)));
  }
  return crcs;
}

}  // namespace hidup
