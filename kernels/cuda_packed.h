// Places in packed buffers of experts (dispatch.h, expert_matmul.h), for CUDA kernels. Only the
// device knows the counts: grids are made for the room of a buffer, and kernels read the starts.
#pragma once

#include <cstdint>

#include "kernels/cuda_math.h"
#include "kernels/expert_matmul.h"

namespace hidup::kernels {

// starts[i] = the sum of the first i counts, for i from 0 to n. One block; a thread adds
// neighbours.
static __global__ void __launch_bounds__(kThreads)
    starts_kernel(const int32_t* counts, int64_t n, int32_t* starts) {
  __shared__ int32_t of_warps[kThreads / kWarp];
  const int64_t each = ceil_div(n, kThreads);
  const int64_t begin = smaller(threadIdx.x * each, n);
  const int64_t end = smaller(begin + each, n);
  int32_t sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    sum += counts[i];
  }
  const int32_t of_lanes = warp_sum_up_to(sum);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x % kWarp == kWarp - 1) {
    of_warps[warp] = of_lanes;
  }
  __syncthreads();
  int32_t start = of_lanes - sum;
  for (int i = 0; i < warp; ++i) {
    start += of_warps[i];
  }
  for (int64_t i = begin; i < end; ++i) {
    starts[i] = start;
    start += counts[i];
  }
  if (threadIdx.x == kThreads - 1) {
    starts[n] = start;
  }
}

constexpr int64_t starts_bytes(int64_t pairs) {
  return (pairs + 1) * static_cast<int64_t>(sizeof(int32_t));
}

// Writes the first row of every pair [expert, sequence], and the end of all rows, to `starts`.
inline void find_starts(Stream& stream, const int32_t* counts, int64_t pairs, int32_t* starts) {
  launch(stream, starts_kernel, 1, kThreads, counts, pairs, starts);
}

// The rows of an expert from `first` on.
struct ExpertRows {
  int64_t expert;
  int64_t first;
  int64_t rows;
};

// Starts of the rows of every expert, for kernels.
struct ExpertStarts {
  const int32_t* of_pairs;  // [experts * batch + 1]
  int64_t experts;
  int64_t batch;

  __device__ int32_t of(int64_t expert) const { return of_pairs[expert * batch]; }

  __device__ ExpertRows rows(int64_t expert) const {
    return {expert, of(expert), of(expert + 1) - of(expert)};
  }

  // Returns the expert of a row in use, the same for all lanes of a warp, which must call this
  // together.
  __device__ int64_t expert_of(int64_t row) const {
    int64_t expert = 0;
    for (unsigned ended = kAllLanes; ended == kAllLanes;) {
      const int64_t other = expert + threadIdx.x % kWarp;
      ended = __ballot_sync(kAllLanes, other < experts && of(other + 1) <= row);
      expert += __popc(ended);
    }
    return expert;
  }

  // Returns the rows of an expert from the one on with which a tile of kTile rows begins; rows is 0
  // if there is no such tile. Tiles begin anew with every expert. All lanes must call this
  // together.
  template <int kTile>
  __device__ ExpertRows tile(int64_t index) const {
    for (int64_t base = 0; base < experts; base += kWarp) {
      const int64_t expert = base + threadIdx.x % kWarp;
      const ExpertRows mine = expert < experts ? rows(expert) : ExpertRows{};
      const auto tiles = static_cast<int32_t>(ceil_div(mine.rows, kTile));
      const int32_t up_to = warp_sum_up_to(tiles);
      const unsigned behind = __ballot_sync(kAllLanes, up_to > index);
      if (behind != 0) {
        const int lane = __ffs(static_cast<int>(behind)) - 1;
        const int64_t skipped = kTile * (index - __shfl_sync(kAllLanes, up_to - tiles, lane));
        return {base + lane, __shfl_sync(kAllLanes, mine.first, lane) + skipped,
                __shfl_sync(kAllLanes, mine.rows, lane) - skipped};
      }
      index -= __shfl_sync(kAllLanes, up_to, kWarp - 1);
    }
    return {};
  }
};

// Finds the starts of packed rows in the stream's scratch memory; valid for the work enqueued next.
inline ExpertStarts expert_starts(Stream& stream, const int32_t* counts, const ExpertSize& size) {
  const int64_t pairs = size.experts * size.batch;
  auto* starts = static_cast<int32_t*>(cuda_stream(stream).scratch(starts_bytes(pairs)));
  find_starts(stream, counts, pairs, starts);
  return {starts, size.experts, size.batch};
}

}  // namespace hidup::kernels
