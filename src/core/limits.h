// Limits that decks, graphs and strategies share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hidup {

// Each microbatch has instructions of its own and can hide the messages of one other. More of them
// cost planning time and make products small.
inline constexpr int64_t kMaxMicrobatches = 256;

// Elements of all tensors of a graph: their bytes, with gradients and optimizer state, fit 64 bits.
inline constexpr double kMaxElements = 0x1p56;

// Limit of the axes of a mesh. A tensor has a placement along each axis, and the search grows with
// the combinations of placements.
inline constexpr size_t kMaxAxes = 8;

inline constexpr int64_t kMaxRanks = 2147483647;  // MPI counts ranks with an int

// Dropout compares 24 random bits with its probability. Nearer to 0 the bits are too coarse; nearer
// to 1 the scale of the remaining elements exceeds 16-bit numbers.
inline constexpr double kMinDropout = 1e-6;
inline constexpr double kMaxDropout = 0.999;

// Smaller factors vanish in single precision.
inline constexpr double kLeastFactor = 1e-30;

}  // namespace hidup
