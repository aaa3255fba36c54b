// Checkpoints of a few tensors in random parts, whose elements encode their place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace hidup::sample {

using Boxes = std::vector<Region>;  // [tensor] of one rank

// Returns a box of a tensor; whole() returns all of the tensor.
Region box_of(const Shape& shape, const Shape& start, const Shape& extent);
Region whole(const Shape& shape);

// Returns scalars, tensors smaller than a block and of several blocks, in all types.
std::vector<StoredTensor> tensors();
// Returns two tensors that make a file of some KiB.
std::vector<StoredTensor> small_tensors();

// Returns the boxes of all ranks: every tensor is cut along a dimension at random places, or whole
// on all ranks, or both for an even number of ranks. Boxes can be empty.
std::vector<Boxes> random_boxes(const std::vector<StoredTensor>& tensors, int ranks,
                                std::mt19937& random);
// Returns boxes with all tensors whole on all ranks.
std::vector<Boxes> whole_boxes(const std::vector<StoredTensor>& tensors, int ranks);

// Returns a state whose members all differ.
TrainingState state(int64_t step);

// Returns elements first .. first + count of a box, row-major in it: bytes that depend on the
// tensor's number, the global element and the step.
std::vector<std::byte> content(const std::vector<StoredTensor>& tensors, size_t tensor,
                               const Region& box, int64_t step, int64_t first, int64_t count);
std::vector<std::byte> content(const std::vector<StoredTensor>& tensors, size_t tensor,
                               const Region& box, int64_t step);

CheckpointWriter::CopyOut copy_out(const std::vector<StoredTensor>& tensors, const Boxes& boxes,
                                   int64_t step);

// Writes content of the state's step on as many ranks as there are boxes.
void write(const WriterOptions& options, const std::vector<StoredTensor>& tensors,
           const std::vector<Boxes>& boxes, const TrainingState& state);
// Does the same with state(step).
void write(const WriterOptions& options, const std::vector<StoredTensor>& tensors,
           const std::vector<Boxes>& boxes, int64_t step);
// Writes a checkpoint on one rank and returns its path.
std::string write_one(const std::string& folder, const std::vector<StoredTensor>& tensors,
                      int64_t step);

// Checks that all content of the file belongs to the step.
void expect_content(const CheckpointFile& file, const std::vector<StoredTensor>& tensors,
                    int64_t step);

std::string bytes_of_file(const std::string& path);

}  // namespace hidup::sample
