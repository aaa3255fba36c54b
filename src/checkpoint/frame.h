// What is around the HDF5 content of a checkpoint file, so that HDF5 never sees a damaged header.
//
//   user block | HDF5: header, tensors, checksums, ... | table
//
// The table has the place of every tensor. All bytes before it that are neither in a tensor nor in
// the user block are the metadata. The user block has the CRC-32C of the table, of the metadata and
// of itself; the checksums of the tensors are part of the metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/open_file.h"

namespace hidup {

// Bytes of the user block, and what HDF5 aligns large datasets to.
inline constexpr int64_t kUserBlock = 4096;
inline constexpr size_t kRunBytes = 1024;  // of it, for the name of the run

// Where a tensor lies in the file.
struct Extent {
  int64_t place = 0;
  int64_t bytes = 0;
};

struct Frame {
  int64_t step = 0;
  std::string run;  // whose the checkpoint is; empty: it does not say
  int64_t file_bytes = 0;
  uint32_t table_crc = 0;
  uint32_t metadata_crc = 0;
  std::vector<Extent> tensors;  // in the order of their places
};

// Whether two files have the same header, whose checksums are those of the same content. `tensors`
// need not be there.
inline bool same_header(const Frame& one, const Frame& other) {
  return one.step == other.step && one.file_bytes == other.file_bytes &&
         one.table_crc == other.table_crc && one.metadata_crc == other.metadata_crc;
}

// Completes a file that HDF5 and the ranks have written: `writing` and `reading` are the same one.
void write_frame(const OpenFile& writing, const OpenFile& reading, int64_t step,
                 const std::string& run, std::vector<Extent> tensors);

// Throws Error(file) where the user block or the file's size is wrong; leaves `tensors` empty.
// Reads the user block only.
Frame read_user_block(const OpenFile& file);

// Throws Error(file) where anything but a tensor's content is wrong. Allocates no more than the
// table has, which lies in the file.
Frame read_frame(const OpenFile& file);

}  // namespace hidup
