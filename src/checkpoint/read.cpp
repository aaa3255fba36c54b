#include <algorithm>
#include <cstring>

#include "checkpoint/checkpoint.h"
#include "checkpoint/crc32c.h"
#include "checkpoint/header.h"
#include "checkpoint/runs.h"
#include "checkpoint/stretch_reader.h"
#include "core/check.h"
#include "core/text.h"

namespace hidup {

CheckpointFile::CheckpointFile(const std::string& path)
    : path_(path), file_(std::make_shared<OpenFile>(path, path, OpenFile::For::reading)) {
  header_ = std::make_shared<StoredHeader>(read_header(*file_));
}

const std::string& CheckpointFile::run() const {
  return header_->frame.run;
}

const TrainingState& CheckpointFile::state() const {
  return header_->state;
}

const std::vector<StoredTensor>& CheckpointFile::tensors() const {
  return header_->tensors;
}

void CheckpointFile::read(size_t tensor, const Region& box, std::byte* out) const {
  const StoredTensor& stored = header_->tensors.at(tensor);
  check(file_ != nullptr, "this rank does not see {}", path_);
  check(std::ranges::equal(stored.shape, std::span(box.global, static_cast<size_t>(box.dims))),
        "a box of another shape than that of {}", stored.name);
  const Extent& extent = header_->frame.tensors[tensor];
  const int64_t size = size_of(stored.dtype);
  StretchReader reader(*file_, extent.place + extent.bytes);
  for_each_run(box, 0, box.elements(), [&](int64_t global, int64_t local, int64_t count) {
    reader.read(extent.place + global * size,
                {out + local * size, static_cast<size_t>(count * size)});
  });
}

void CheckpointFile::verify(int64_t first, int64_t stride) const {
  check(file_ != nullptr, "this rank does not see {}", path_);
  std::vector<std::byte> buffer(kBlockBytes);
  int64_t before = 0;  // blocks of the earlier tensors
  for (size_t i = 0; i < header_->tensors.size(); ++i) {
    const std::vector<uint32_t>& checksums = header_->checksums[i];
    const Extent& extent = header_->frame.tensors[i];
    const auto blocks = static_cast<int64_t>(checksums.size());
    const int64_t skipped = std::max<int64_t>(before - first + stride - 1, 0) / stride;
    for (int64_t block = first + skipped * stride - before; block < blocks; block += stride) {
      const int64_t at = block * kBlockBytes;
      const auto piece =
          std::span(buffer).first(static_cast<size_t>(std::min(kBlockBytes, extent.bytes - at)));
      file_->read(extent.place + at, piece);
      if (crc32c(piece) != checksums[static_cast<size_t>(block)]) {
        fail(ExitCode::file, "{}: block {} of {} is corrupted: its checksum differs", path_, block,
             shown(header_->tensors[i].name));
      }
    }
    before += blocks;
  }
}

}  // namespace hidup
