#include "checkpoint/tensor_writer.h"

#include <algorithm>
#include <utility>

#include "checkpoint/crc32c.h"

namespace hidup {
namespace {

// Bytes per flush: small files on the same disk need not wait long, and the end not for all bytes.
constexpr int64_t kFlushBytes = int64_t{32} << 20;

}  // namespace

void TensorWriter::write(size_t tensor, int64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {  // goes block by block, because bytes just read are still in the cache
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

// Adds the CRC of bytes within one block.
void TensorWriter::add_crc(size_t tensor, int64_t at, std::span<const std::byte> bytes) {
  const int64_t block = at / kBlockBytes;
  if (crc_end_ == 0 || tensor != now_.tensor || block != now_.block || at < crc_end_) {
    end_block();
    now_ = {static_cast<uint32_t>(tensor), 0, block};
    crc_end_ = at;
  }
  now_.crc = linear_crc(linear_crc_of_zeros(now_.crc, at - crc_end_), bytes);
  crc_end_ = at + static_cast<int64_t>(bytes.size());
}

void TensorWriter::end_block() {
  if (crc_end_ > 0) {
    const int64_t end = std::min(bytes_of(tensors_[now_.tensor]), (now_.block + 1) * kBlockBytes);
    now_.crc = linear_crc_of_zeros(now_.crc, end - crc_end_);
    crcs_.push_back(now_);
    crc_end_ = 0;
  }
}

void TensorWriter::pace(int64_t at, int64_t count) {
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

std::vector<BlockCrc> TensorWriter::finish() {
  end_block();
  file_.flush();
  return std::move(crcs_);
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
