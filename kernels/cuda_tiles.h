// Matrix products of 16-bit elements by a warp, on tensor cores, for CUDA kernels.
//
// The tiles are those of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"): with
// g = lane / 4 and t = lane % 4, a lane holds these parts:
//   a, [16, 16]: rows g and g + 8, columns 2t, 2t + 1, 2t + 8 and 2t + 9
//   b, [16, 8]: rows 2t, 2t + 1, 2t + 8 and 2t + 9, column g
//   the sums, f32 [16, 8]: rows g and g + 8, columns 2t and 2t + 1
// Tensor cores of sm_80 and later multiply them; older GPUs and tests/cuda_shim run plain code. All
// lanes of a warp must call these functions together.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda_elements.h"

#ifdef __CUDACC__
#define HIDUP_NOT_COUNTED
#else
// A stand-in for one tensor core instruction: its memory does not count as the kernel's.
#define HIDUP_NOT_COUNTED __attribute__((no_sanitize("thread")))
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HIDUP_TENSOR_CORES
#endif

namespace hidup::kernels {

inline constexpr int kTileWarps = 4;  // warps of a block with tiles

// Pairs of elements that are neighbours in a row of a, or in a column of b.
struct TileA {
  uint32_t pairs[4];  // left half of columns: row g, row g + 8; then the right half
};
struct TileB {
  uint32_t pairs[2];
};
struct TileSums {
  float values[4];  // row g: columns 2t, 2t + 1; then row g + 8
};

__device__ inline int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % kWarp;
}

// Returns the dynamic shared memory of the block, aligned to 16 bytes.
__device__ inline void* dynamic_memory() {
#ifdef __CUDACC__
  extern __shared__ uint4 memory[];
  return memory;
#else
  return cuda_shim::dynamic_shared_memory();
#endif
}

template <int kCount>
__device__ void clear(TileSums (&sums)[kCount]) {
  HIDUP_UNROLL for (int i = 0; i < kCount; ++i) {
    sums[i] = {};
  }
}

// Starts to copy kRows x kColumns elements to shared memory by a block of kThreadsOfBlock, with
// zeros beyond the rows and columns that exist. stride: elements between rows of `from`. vectors:
// rows of `from` consist of whole vectors, aligned to 16 bytes.
template <int kThreadsOfBlock, int kRows, int kColumns, typename Element, typename Count,
          int kStride>
__device__ void start_copy(const Element* from, int64_t stride, Count rows, Count columns,
                           bool vectors, Element (*to)[kStride]) {
  constexpr int kPer = kPerVector<Element>;
  constexpr int kAcross = kColumns / kPer;
  constexpr int kStep = kThreadsOfBlock / kAcross;
  const int column = static_cast<int>(threadIdx.x) % kAcross * kPer;
  HIDUP_UNROLL for (int i = 0; i < kRows / kStep; ++i) {
    const int row = static_cast<int>(threadIdx.x) / kAcross + i * kStep;
    const bool exists = row < rows && column < columns;
    const Element* data = from + (exists ? row * stride + column : 0);
    Element* copy = &to[row][column];
    if (vectors) {
      __pipeline_memcpy_async(copy, data, 16, exists ? 0 : 16);
    } else {
      for (int j = 0; j < kPer; ++j) {
        copy[j] = exists && column + j < columns ? data[j] : Element{};
      }
    }
  }
}

template <typename Element>
__device__ uint32_t pair_of(const Vector<Element, 2>& both) {
  return __builtin_bit_cast(uint32_t, both);
}

// Returns two neighbours, from an even index on.
template <typename Element>
__device__ uint32_t pair_at(const Element* data) {
  return pair_of(*reinterpret_cast<const Vector<Element, 2>*>(data));
}

// a[m, k] from two tiles of sums: columns 0 to 7 and 8 to 15.
template <typename Element>
__device__ TileA narrow_to_a(const TileSums& left, const TileSums& right) {
  return {{pair_of(narrow<Element>(left.values[0], left.values[1])),
           pair_of(narrow<Element>(left.values[2], left.values[3])),
           pair_of(narrow<Element>(right.values[0], right.values[1])),
           pair_of(narrow<Element>(right.values[2], right.values[3]))}};
}

#ifdef HIDUP_TENSOR_CORES

// Loads four matrices of 8 rows of 16 bytes; lane l has the address of row l % 8 of matrix l / 8.
template <bool kTransposed, typename Element>
__device__ void load_matrices(const Element* row, TileB (&b)[2]) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0].pairs[0]), "=r"(b[0].pairs[1]), "=r"(b[1].pairs[0]),
                   "=r"(b[1].pairs[1])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0].pairs[0]), "=r"(b[0].pairs[1]), "=r"(b[1].pairs[0]),
                   "=r"(b[1].pairs[1])
                 : "r"(address)
                 : "memory");
  }
}

#endif

// Loads a[m, k] = rows[m * stride + k]. Rows are in shared memory and aligned to 16 bytes.
template <typename Element>
__device__ TileA load_a(const Element* rows, int stride) {
  const int lane = lane_of_warp();
#ifdef HIDUP_TENSOR_CORES
  TileB b[2];
  load_matrices<false>(rows + lane % 16 * stride + lane / 16 * 8, b);
  return {{b[0].pairs[0], b[0].pairs[1], b[1].pairs[0], b[1].pairs[1]}};
#else
  const Element* upper = rows + lane / 4 * stride + lane % 4 * 2;
  const Element* lower = upper + 8 * stride;
  return {{pair_at(upper), pair_at(lower), pair_at(upper + 8), pair_at(lower + 8)}};
#endif
}

// Does the same for a[m, k] = rows[k * stride + m].
template <typename Element>
__device__ TileA load_a_of_columns(const Element* rows, int stride) {
  const int lane = lane_of_warp();
#ifdef HIDUP_TENSOR_CORES
  TileB b[2];
  load_matrices<true>(rows + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8, b);
  return {{b[0].pairs[0], b[0].pairs[1], b[1].pairs[0], b[1].pairs[1]}};
#else
  TileA a;
  for (int i = 0; i < 4; ++i) {
    const Element* first = rows + (i / 2 * 8 + lane % 4 * 2) * stride + i % 2 * 8 + lane / 4;
    a.pairs[i] = pair_of(Vector<Element, 2>{{first[0], first[stride]}});
  }
  return a;
#endif
}

// Loads two neighbouring tiles: b[k, n] = rows[n * stride + k] for k and n below 16.
template <typename Element>
__device__ void load_b_of_columns(const Element* rows, int stride, TileB (&b)[2]) {
  const int lane = lane_of_warp();
#ifdef HIDUP_TENSOR_CORES
  load_matrices<false>(rows + (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8, b);
#else
  for (int half = 0; half < 2; ++half) {
    const Element* column = rows + (8 * half + lane / 4) * stride + lane % 4 * 2;
    b[half] = {{pair_at(column), pair_at(column + 8)}};
  }
#endif
}

// Does the same for b[k, n] = rows[k * stride + n].
template <typename Element>
__device__ void load_b_of_rows(const Element* rows, int stride, TileB (&b)[2]) {
  const int lane = lane_of_warp();
#ifdef HIDUP_TENSOR_CORES
  load_matrices<true>(rows + lane % 16 * stride + lane / 16 * 8, b);
#else
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 2; ++i) {
      const Element* first = rows + (8 * i + lane % 4 * 2) * stride + 8 * half + lane / 4;
      b[half].pairs[i] = pair_of(Vector<Element, 2>{{first[0], first[stride]}});
    }
  }
#endif
}

#ifdef HIDUP_TENSOR_CORES

// sums += a b
template <typename Element>
__device__ void multiply_add(const TileA& a, const TileB& b, TileSums& sums) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
        : "r"(a.pairs[0]), "r"(a.pairs[1]), "r"(a.pairs[2]), "r"(a.pairs[3]), "r"(b.pairs[0]),
          "r"(b.pairs[1]));
  } else {
    static_assert(std::is_same_v<Element, Float16>);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums.values[0]), "+f"(sums.values[1]), "+f"(sums.values[2]), "+f"(sums.values[3])
        : "r"(a.pairs[0]), "r"(a.pairs[1]), "r"(a.pairs[2]), "r"(a.pairs[3]), "r"(b.pairs[0]),
          "r"(b.pairs[1]));
  }
}

#else

template <typename Element>
__device__ float element_of(uint32_t pair, int i) {
  return widen(__builtin_bit_cast(Vector<Element, 2>, pair).element[i]);
}

// Not inlined, which would take compilers minutes.
template <typename Element>
HIDUP_NOT_COUNTED __attribute__((noinline)) __device__ void multiply_add(const TileA& a,
                                                                         const TileB& b,
                                                                         TileSums& sums) {
  __shared__ uint32_t of_all_warps[kTileWarps][kWarp][6];
  auto& pairs = of_all_warps[threadIdx.x / kWarp];
  const int lane = lane_of_warp();
  __syncwarp();  // others may still read data of the last call
  for (int i = 0; i < 4; ++i) {
    pairs[lane][i] = a.pairs[i];
  }
  for (int i = 0; i < 2; ++i) {
    pairs[lane][4 + i] = b.pairs[i];
  }
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const int column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int at = k % 8 / 2;  // the lane's t
      const uint32_t left = pairs[lane / 4 * 4 + at][i / 2 + k / 8 * 2];
      const uint32_t right = pairs[column * 4 + at][4 + k / 8];
      sums.values[i] += element_of<Element>(left, k % 2) * element_of<Element>(right, k % 2);
    }
  }
}

#endif

}  // namespace hidup::kernels
