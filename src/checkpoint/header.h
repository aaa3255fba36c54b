// The HDF5 content of a checkpoint except the tensors' elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/frame.h"
#include "core/new_file.h"

namespace hidup {

inline int64_t bytes_of(const StoredTensor& tensor) {
  return elements(tensor.shape) * size_of(tensor.dtype);
}

// Places of tensors and of their checksums (uint32) in the file, in bytes.
struct Places {
  std::vector<int64_t> tensors;
  std::vector<int64_t> checksums;
};

// Writes all but elements and checksums. Throws Error(file).
Places write_header(const NewFile& place, const TrainingState& state,
                    const std::vector<StoredTensor>& tensors);

// The content of a file, in the order in which the tensors lie in it.
struct StoredHeader {
  TrainingState state;
  Frame frame;  // frame.tensors[i] is the place of tensors[i]
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<uint32_t>> checksums;  // checksums of the blocks of tensors[i]
};

// Reads the header. Throws Error(file).
StoredHeader read_header(const OpenFile& bytes);

// Packs the header as bytes for other ranks.
std::string pack(const StoredHeader& header);
StoredHeader unpack(const std::string& bytes);

}  // namespace hidup
