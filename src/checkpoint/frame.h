// The frame around the HDF5 content of a checkpoint file, which keeps damaged headers from HDF5.
//
//   user block | HDF5: header, tensors, checksums, ... | table
//
// The table has the place of every tensor. The metadata are all bytes before the table that are
// neither in a tensor nor in the user block. The user block has the CRC-32C of the table, of the
// metadata and of itself; the checksums of the tensors are part of the metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/open_file.h"

namespace hidup {

// Bytes of the user block, and HDF5's alignment of large datasets.
inline constexpr int64_t kUserBlock = 4096;
inline constexpr size_t kRunBytes = 1024;  // bytes of the user block for the name of the run

// The place of a tensor in the file.
struct Extent {
  int64_t place = 0;
  int64_t bytes = 0;
};

struct Frame {
  int64_t step = 0;
  std::string run;  // run of the checkpoint; empty: unknown
  int64_t file_bytes = 0;
  uint32_t table_crc = 0;
  uint32_t metadata_crc = 0;
  std::vector<Extent> tensors;  // in the order of their places
};

// Returns true if two files have equal headers and checksums of equal content; `tensors` may be
// missing.
inline bool same_header(const Frame& one, const Frame& other) {
  return one.step == other.step && one.file_bytes == other.file_bytes &&
         one.table_crc == other.table_crc && one.metadata_crc == other.metadata_crc;
}

// Completes a file that HDF5 and the ranks have written; `writing` and `reading` are the same file.
void write_frame(const OpenFile& writing, const OpenFile& reading, int64_t step,
                 const std::string& run, std::vector<Extent> tensors);

// Reads only the user block; `tensors` stays empty. Throws Error(file) where it or the file's size
// is wrong.
Frame read_user_block(const OpenFile& file);

// Reads the frame. Throws Error(file) where anything but a tensor's content is wrong. Allocates no
// more memory than the table, which lies in the file.
Frame read_frame(const OpenFile& file);

}  // namespace hidup
