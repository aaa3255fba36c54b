// The HDF5 content of a checkpoint but for the tensors' elements.
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

// Where tensors, and their checksums (uint32), lie in the file, in bytes.
struct Places {
  std::vector<int64_t> tensors;
  std::vector<int64_t> checksums;
};

// Writes all but elements and checksums. Throws Error(file).
Places write_header(const NewFile& place, const TrainingState& state,
                    const std::vector<StoredTensor>& tensors);

// What a file holds. In the order in which the tensors lie in it.
struct StoredHeader {
  TrainingState state;
  Frame frame;  // frame.tensors[i] is the place of tensors[i]
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<uint32_t>> checksums;  // of the blocks of tensors[i]
};

// Throws Error(file).
StoredHeader read_header(const OpenFile& bytes);

// As bytes, for other ranks.
std::string pack(const StoredHeader& header);
StoredHeader unpack(const std::string& bytes);

}  // namespace hidup
