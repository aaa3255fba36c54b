// Checkpoints of a few tensors, cut in any way, whose elements say where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace hidup::sample {

using Boxes = std::vector<Region>;  // [tensor], of one rank

// A box; all of the tensor by default.
Region box_of(const Shape& shape, const Shape& start, const Shape& extent);
Region whole(const Shape& shape);

// Scalars, tensors smaller than a block and of several, in all types.
std::vector<StoredTensor> tensors();
// Two that make a file of some KiB.
std::vector<StoredTensor> small_tensors();

// Of all ranks: every tensor is cut along a dimension at random places, or whole on all ranks, or
// both, for an even number of ranks. Parts can be empty.
std::vector<Boxes> random_boxes(const std::vector<StoredTensor>& tensors, int ranks,
                                std::mt19937& random);
// All tensors whole on all ranks.
std::vector<Boxes> whole_boxes(const std::vector<StoredTensor>& tensors, int ranks);

// Every member has a value of its own.
TrainingState state(int64_t step);

// Elements first .. first + count of a box, row-major in it: bytes that depend on the tensor's
// number, the global element and the step.
std::vector<std::byte> content(const std::vector<StoredTensor>& tensors, size_t tensor,
                               const Region& box, int64_t step, int64_t first, int64_t count);
std::vector<std::byte> content(const std::vector<StoredTensor>& tensors, size_t tensor,
                               const Region& box, int64_t step);

CheckpointWriter::CopyOut copy_out(const std::vector<StoredTensor>& tensors, const Boxes& boxes,
                                   int64_t step);

// Writes content of the state's step, on as many ranks as there are boxes.
void write(const WriterOptions& options, const std::vector<StoredTensor>& tensors,
           const std::vector<Boxes>& boxes, const TrainingState& state);
// The same with state(step).
void write(const WriterOptions& options, const std::vector<StoredTensor>& tensors,
           const std::vector<Boxes>& boxes, int64_t step);
// On one rank. Returns the file's path.
std::string write_one(const std::string& folder, const std::vector<StoredTensor>& tensors,
                      int64_t step);

// All that a file holds must be that of the step.
void expect_content(const CheckpointFile& file, const std::vector<StoredTensor>& tensors,
                    int64_t step);

std::string bytes_of_file(const std::string& path);

}  // namespace hidup::sample
