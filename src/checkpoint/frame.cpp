#include "checkpoint/frame.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "checkpoint/crc32c.h"
#include "core/check.h"

namespace hidup {
namespace {

constexpr std::array<char, 24> kMagic = {"hidup checkpoint\n"};
constexpr int64_t kFrameVersion = 1;

// The user block as it lies in the file; the numbers are little-endian.
struct UserBlock {
  std::array<char, 24> magic = kMagic;
  int64_t version = kFrameVersion;
  int64_t step = 0;
  int64_t file_bytes = 0;
  int64_t table = 0;  // place of the table
  uint32_t table_crc = 0;
  uint32_t metadata_crc = 0;
  std::array<char, kRunBytes> run = {};  // all zeros in older files
  std::array<std::byte, kUserBlock - kRunBytes - 72> unused = {};
  uint32_t padding = 0;
  uint32_t own_crc = 0;  // CRC of all bytes before it
};
static_assert(sizeof(UserBlock) == kUserBlock);

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

std::span<const std::byte> bytes_of(const UserBlock& block) {
  return std::as_bytes(std::span(&block, 1));
}

uint32_t crc_of(const UserBlock& block) {
  return crc32c(bytes_of(block).first(sizeof(UserBlock) - sizeof(block.own_crc)));
}

void add_range(const OpenFile& file, int64_t from, int64_t to, RunningCrc& crc) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(to - from, kBlockBytes)));
  while (from < to) {
    const int64_t count = std::min(to - from, kBlockBytes);
    const std::span<std::byte> piece = std::span(buffer).first(static_cast<size_t>(count));
    file.read(from, piece);
    crc.add(piece);
    from += count;
  }
}

uint32_t metadata_crc(const OpenFile& file, const std::vector<Extent>& tensors, int64_t end) {
  RunningCrc crc;
  int64_t at = kUserBlock;
  for (const Extent& tensor : tensors) {
    add_range(file, at, tensor.place, crc);
    at = tensor.place + tensor.bytes;
  }
  add_range(file, at, end, crc);
  return crc.value();
}

UserBlock read_block(const OpenFile& file) {
  UserBlock block;
  if (file.bytes() >= kUserBlock) {
    file.read(0, std::as_writable_bytes(std::span(&block, 1)));
  } else {
    block.magic = {};
  }
  if (block.magic != kMagic) {
    fail(ExitCode::file, "{}: is not a checkpoint", file.name());
  }
  if (block.own_crc != crc_of(block)) {
    fail(ExitCode::file, "{}: its first {} bytes are corrupted", file.name(), kUserBlock);
  }
  if (block.version != kFrameVersion) {
    fail(ExitCode::file, "{}: is a checkpoint of format {}; this program reads format {}",
         file.name(), block.version, kFrameVersion);
  }
  if (block.file_bytes != file.bytes()) {
    fail(ExitCode::file, "{}: has {} bytes instead of {}: it is {}", file.name(), file.bytes(),
         block.file_bytes, file.bytes() < block.file_bytes ? "truncated" : "longer than written");
  }
  return block;
}

Frame without_tensors(const UserBlock& block) {
  const char* const run = block.run.data();
  return {block.step,         std::string(run, strnlen(run, block.run.size())),
          block.file_bytes,   block.table_crc,
          block.metadata_crc, {}};
}

std::vector<Extent> read_table(const OpenFile& file, const UserBlock& block) {
  const bool inside = block.table >= kUserBlock && block.table <= block.file_bytes;
  const int64_t bytes = inside ? block.file_bytes - block.table : 0;
  if (!inside || bytes % static_cast<int64_t>(sizeof(Extent)) != 0) {
    fail(ExitCode::file, "{}: its table of tensors lies outside of the file", file.name());
  }
  std::vector<Extent> tensors(static_cast<size_t>(bytes) / sizeof(Extent));
  file.read(block.table, std::as_writable_bytes(std::span(tensors)));
  if (crc32c(bytes_of(tensors)) != block.table_crc) {
    fail(ExitCode::file, "{}: its table of tensors is corrupted", file.name());
  }
  int64_t end = kUserBlock;
  for (const Extent& tensor : tensors) {
    if (tensor.place < end || tensor.bytes <= 0 || tensor.place > block.table ||
        tensor.bytes > block.table - tensor.place) {
      fail(ExitCode::file, "{}: tensors overlap in it, or lie outside of the file", file.name());
    }
    end = tensor.place + tensor.bytes;
  }
  return tensors;
}

}  // namespace

void write_frame(const OpenFile& writing, const OpenFile& reading, int64_t step,
                 const std::string& run, std::vector<Extent> tensors) {
  std::ranges::sort(tensors, {}, &Extent::place);
  UserBlock block;
  block.step = step;
  run.copy(block.run.data(), block.run.size());
  block.table = reading.bytes();
  block.file_bytes = block.table + static_cast<int64_t>(bytes_of(tensors).size());
  block.table_crc = crc32c(bytes_of(tensors));
  block.metadata_crc = metadata_crc(reading, tensors, block.table);
  block.own_crc = crc_of(block);
  writing.write(block.table, bytes_of(tensors));
  writing.write(0, bytes_of(block));
}

Frame read_user_block(const OpenFile& file) {
  return without_tensors(read_block(file));
}

Frame read_frame(const OpenFile& file) {
  const UserBlock block = read_block(file);
  Frame frame = without_tensors(block);
  frame.tensors = read_table(file, block);
  if (metadata_crc(file, frame.tensors, block.table) != block.metadata_crc) {
    fail(ExitCode::file, "{}: its header is corrupted", file.name());
  }
  return frame;
}

}  // namespace hidup
