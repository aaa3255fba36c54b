// Tiles in shared memory, their products, and the rows of a block, for attention on tensor cores.
//
// A block has four warps and 64 rows of the result: queries, or keys for their gradients. It loops
// over the tiles of the other side. The next tile is copied to shared memory while the current one
// is multiplied. Heads are padded with zeros to kHead elements.
#pragma once

#include "kernels/cuda_attention.h"
#include "kernels/cuda_tiles.h"

namespace hidup::kernels {

inline constexpr int kTensorThreads = kTileWarps * kWarp;
inline constexpr int kRows = 16 * kTileWarps;  // of a block; a warp has 16 of them
inline constexpr float kLog2E = 1.44269504F;

// Returns 2^x by one instruction: results below 2^-126 are 0.
__device__ inline float exp2_of(float x) {
#ifdef HIDUP_TENSOR_CORES
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// kColumns rows of two tensors of the other side, stacked. A pair of tiles fits in 48 KiB, which
// needs no opt-in. The pad puts neighbouring rows in different banks.
template <typename Element, int kHead>
struct alignas(16) Tile {
  static constexpr int kColumns = kHead <= 64 ? 64 : 32;  // of the scores
  static constexpr int kStrips = kColumns / 16;           // columns multiplied at a time
  static constexpr int kStride = kHead + 8;
  Element data[2 * kColumns][kStride];
};
static_assert(2 * sizeof(Tile<BFloat16, 64>) <= 36864 && 2 * sizeof(Tile<BFloat16, 128>) <= 36864);

// Starts to copy kCount rows of `from` to the rows of the tile from `first` on, with zeros beyond
// the ends of `from`. vectors: rows of `from` consist of whole vectors, aligned to 16 bytes.
template <int kCount, typename Element, int kHead>
__device__ void load(const Rows<Element>& from, int64_t head, bool vectors, int first,
                     Tile<Element, kHead>& to) {
  start_copy<kTensorThreads, kCount, kHead>(from.data, from.stride, from.rows, head, vectors,
                                            to.data + first);
}

// Waits until the copies of all threads have arrived and no thread reads older data.
__device__ inline void arrive() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
}

// Loads the rows of a warp, as left operand, from a tile with all rows of a block.
template <typename Element, int kHead>
__device__ void load_a_rows(const Tile<Element, kHead>& rows, TileA (&a)[kHead / 16]) {
  const int first = static_cast<int>(threadIdx.x) / kWarp * 16;
  HIDUP_UNROLL for (int d = 0; d < kHead / 16; ++d) {
    a[d] = load_a(&rows.data[first][16 * d], rows.kStride);
  }
}

// sums += the inner products of the rows of a with 16 rows of b from `first` on.
template <typename Element, int kHead>
__device__ void add_inner_products(const TileA (&a)[kHead / 16], const Tile<Element, kHead>& b,
                                   int first, TileSums (&sums)[2]) {
  HIDUP_UNROLL for (int d = 0; d < kHead / 16; ++d) {
    TileB tiles[2];
    load_b_of_columns(&b.data[first][16 * d], b.kStride, tiles);
    multiply_add<Element>(a[d], tiles[0], sums[0]);
    multiply_add<Element>(a[d], tiles[1], sums[1]);
  }
}

// sums += weights b, for 16 rows of b from `first` on.
template <typename Element, int kHead>
__device__ void add_product(const TileSums (&weights)[2], const Tile<Element, kHead>& b, int first,
                            TileSums (&sums)[kHead / 8]) {
  const TileA a = narrow_to_a<Element>(weights[0], weights[1]);
  HIDUP_UNROLL for (int d = 0; d < kHead / 16; ++d) {
    TileB tiles[2];
    load_b_of_rows(&b.data[first][16 * d], b.kStride, tiles);
    multiply_add<Element>(a, tiles[0], sums[2 * d]);
    multiply_add<Element>(a, tiles[1], sums[2 * d + 1]);
  }
}

// The place of a lane's sums in a strip of 16 columns: value i of the left (0) or right (1) tile.
struct Place {
  int first_of_warp;  // first row of the warp, in the block
  int first_row;      // first row of the lane
  int first_column;

  __device__ Place()
      : first_of_warp(static_cast<int>(threadIdx.x) / kWarp * 16),
        first_row(first_of_warp + lane_of_warp() / 4),
        first_column(lane_of_warp() % 4 * 2) {}
  __device__ int row(int i) const { return first_row + i / 2 * 8; }
  __device__ int column(int tile, int i) const { return 8 * tile + first_column + i % 2; }
};

// Writes factor * sums to rows of `head` elements; only the first `rows` exist.
template <typename Element, int kHead>
__device__ void write(const TileSums (&sums)[kHead / 8], const float (&factor)[2], Element* data,
                      int64_t stride, int64_t rows, int64_t head, bool vectors) {
  const Place at;
  HIDUP_UNROLL for (int d = 0; d < kHead / 8; ++d) {
    HIDUP_UNROLL for (int half = 0; half < 2; ++half) {
      const int row = at.row(2 * half);
      const int column = at.column(d, 0);
      if (row >= rows || column >= head) {
        continue;
      }
      const Vector<Element, 2> both = narrow<Element>(factor[half] * sums[d].values[2 * half],
                                                      factor[half] * sums[d].values[2 * half + 1]);
      Element* to = data + row * stride + column;
      if (vectors) {
        *reinterpret_cast<Vector<Element, 2>*>(to) = both;
      } else {
        to[0] = both.element[0];
        if (column + 1 < head) {
          to[1] = both.element[1];
        }
      }
    }
  }
}

// A block's work. blockIdx.x counts `count` heads (or groups) of all sequences, fastest, and blocks
// of rows; last_first puts the last rows first if they have the most work.
struct Task {
  int64_t index;  // of the head or group
  int first;      // position of the block's first row

  __device__ Task(int64_t count, bool last_first) : index(blockIdx.x % count) {
    const auto block = static_cast<int>(blockIdx.x / count);
    const auto blocks = static_cast<int>(gridDim.x / count);
    first = kRows * (last_first ? blocks - 1 - block : block);
  }
};

// Returns the grid for `heads` heads or groups in every sequence.
inline dim3 attention_grid(const AttentionSize& size, int64_t heads) {
  check_at_most("positions of a sequence", size.sequence, INT32_MAX - kRows);
  return grid_of(size.batch * heads * ceil_div(size.sequence, kRows));
}

}  // namespace hidup::kernels
