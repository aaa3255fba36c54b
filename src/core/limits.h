// Limits that decks, graphs and strategies share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hidup {

// Every microbatch has instructions of its own, and each can hide the messages of one other: more
// of them cost planning time and small products.
inline constexpr int64_t kMaxMicrobatches = 256;

// Of all tensors of a graph: their bytes, with gradients and optimizer state, fit into 64 bits.
inline constexpr double kMaxElements = 0x1p56;

// Of a mesh. A tensor has a placement along each, and what the search tries grows with their
// combinations.
inline constexpr size_t kMaxAxes = 8;

inline constexpr int64_t kMaxRanks = 2147483647;  // MPI counts them with an int

// Dropout compares 24 random bits with its probability. Nearer to 0 these are too coarse, nearer to
// 1 what is left is scaled beyond what 16-bit numbers hold.
inline constexpr double kMinDropout = 1e-6;
inline constexpr double kMaxDropout = 0.999;

// Of factors: smaller ones are 0 in single precision.
inline constexpr double kLeastFactor = 1e-30;

}  // namespace hidup
