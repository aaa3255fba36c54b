// A block computes a tile of one expert's result. The operands go through shared memory in steps of
// 64 bytes of the sums, of which two are copied while one is multiplied: by tensor cores in 16
// bits, by plain multiply-adds in f32. Sums are in one order, so repeated runs have equal bits.
#include "kernels/cuda_grouped_product.h"
#include "kernels/cuda_packed.h"
#include "kernels/cuda_tiles.h"

namespace hidup::kernels {
namespace {

constexpr int kTile = 128;  // rows and columns of a block's part of the result
constexpr int kStages = 3;  // steps in shared memory
constexpr int kBand = 8;  // tiles of rows that share the columns of w while these are in the cache

template <typename Element>
constexpr int kStep = 64 / static_cast<int>(sizeof(Element));  // terms of a sum

// A step's part of an operand: kTile rows or columns of the result, and kStep terms of its sums.
// The pad puts neighbouring rows in different banks.
template <typename Element, bool kTermsAreColumns>
struct alignas(16) Operand {
  static constexpr int kRows = kTermsAreColumns ? kTile : kStep<Element>;
  static constexpr int kColumns = kTermsAreColumns ? kStep<Element> : kTile;
  static constexpr int kStride = kColumns + kPerVector<Element>;
  Element data[kRows][kStride];

  // Starts to copy the terms from `first` on. `from`: the result's first row or column, of which
  // `results` exist.
  template <int kThreadsOfBlock>
  __device__ void copy(const Element* from, int64_t stride, int results, int64_t first,
                       int64_t terms, bool vectors) {
    const auto left = static_cast<int>(smaller<int64_t>(terms - first, kStep<Element>));
    if constexpr (kTermsAreColumns) {
      start_copy<kThreadsOfBlock, kRows, kColumns>(from + first, stride, results, left, vectors,
                                                   data);
    } else {
      start_copy<kThreadsOfBlock, kRows, kColumns>(from + first * stride, stride, left, results,
                                                   vectors, data);
    }
  }

  // Return and load tiles of 16 terms and 16 results, as left and as right operand.
  __device__ TileA left(int result, int term) const {
    if constexpr (kTermsAreColumns) {
      return load_a(&data[result][term], kStride);
    } else {
      return load_a_of_columns(&data[term][result], kStride);
    }
  }
  __device__ void right(int result, int term, TileB (&b)[2]) const {
    if constexpr (kTermsAreColumns) {
      load_b_of_columns(&data[result][term], kStride, b);
    } else {
      load_b_of_rows(&data[term][result], kStride, b);
    }
  }

  // Returns four terms of a result.
  __device__ Vector<Element, 4> four(int result, int term) const {
    if constexpr (kTermsAreColumns) {
      return load_vector<Element, 4>(&data[result][term]);
    } else {
      return {{data[term][result], data[term + 1][result], data[term + 2][result],
               data[term + 3][result]}};
    }
  }
};

// A thread's sums of a block's tile. In 16 bits a warp has a quarter of it, 64 x 64.
template <typename Element>
class Sums {
 public:
  static constexpr int kThreads = kTileWarps * kWarp;

  __device__ Sums()
      : row_(static_cast<int>(threadIdx.x) / kWarp / 2 * kHalf),
        column_(static_cast<int>(threadIdx.x) / kWarp % 2 * kHalf) {
    HIDUP_UNROLL for (auto& strip : sums_) {
      clear(strip);
    }
  }

  template <typename A, typename B>
  __device__ void add(const A& a, const B& b) {
    HIDUP_UNROLL for (int term = 0; term < kStep<Element>; term += 16) {
      TileA left[kStrips];
      HIDUP_UNROLL for (int i = 0; i < kStrips; ++i) {
        left[i] = a.left(row_ + 16 * i, term);
      }
      HIDUP_UNROLL for (int j = 0; j < kStrips; ++j) {
        TileB pair[2];
        b.right(column_ + 16 * j, term, pair);
        HIDUP_UNROLL for (int i = 0; i < kStrips; ++i) {
          multiply_add<Element>(left[i], pair[0], sums_[i][2 * j]);
          multiply_add<Element>(left[i], pair[1], sums_[i][2 * j + 1]);
        }
      }
    }
  }

  // Calls visit(row, column, vector of neighbours).
  template <typename Visit>
  __device__ void each(Visit visit) const {
    const int row = row_ + lane_of_warp() / 4;
    const int column = column_ + lane_of_warp() % 4 * 2;
    HIDUP_UNROLL for (int i = 0; i < kStrips; ++i) {
      HIDUP_UNROLL for (int j = 0; j < 2 * kStrips; ++j) {
        const auto& values = sums_[i][j].values;
        visit(row + 16 * i, column + 8 * j, Vector<float, 2>{{values[0], values[1]}});
        visit(row + 16 * i + 8, column + 8 * j, Vector<float, 2>{{values[2], values[3]}});
      }
    }
  }

 private:
  static constexpr int kHalf = kTile / 2;
  static constexpr int kStrips = kHalf / 16;

  int row_;
  int column_;
  TileSums sums_[kStrips][2 * kStrips];
};

// In f32 a thread has 8 x 8 of them.
template <>
class Sums<float> {
 public:
  static constexpr int kThreads = kernels::kThreads;

  template <typename A, typename B>
  __device__ void add(const A& a, const B& b) {
    for (int term = 0; term < kStep<float>; term += 4) {
      Vector<float, 4> right[kEach];
      HIDUP_UNROLL for (int j = 0; j < kEach; ++j) {
        right[j] = b.four(column(j), term);
      }
      HIDUP_UNROLL for (int i = 0; i < kEach; ++i) {
        const Vector<float, 4> left = a.four(row(i), term);
        HIDUP_UNROLL for (int j = 0; j < kEach; ++j) {
          HIDUP_UNROLL for (int t = 0; t < 4; ++t) {
            sums_[i][j] += left.element[t] * right[j].element[t];
          }
        }
      }
    }
  }

  template <typename Visit>
  __device__ void each(Visit visit) const {
    HIDUP_UNROLL for (int i = 0; i < kEach; ++i) {
      HIDUP_UNROLL for (int j = 0; j < kEach; ++j) {
        visit(row(i), column(j), Vector<float, 1>{{sums_[i][j]}});
      }
    }
  }

 private:
  static constexpr int kEach = 8;
  static constexpr int kAcross = kTile / kEach;

  // Neighbouring threads read different banks, and write neighbours.
  __device__ static int row(int i) {
    return static_cast<int>(threadIdx.x) / kAcross * 4 + i % 4 + i / 4 * (kTile / 2);
  }
  __device__ static int column(int j) {
    return static_cast<int>(threadIdx.x) % kAcross + j * kAcross;
  }

  float sums_[kEach][kEach] = {};
};

// c (+)= op(a) op(b) of every expert, op(a) of m x k and op(b) of k x n elements. Where a is
// transposed, its rows are the packed ones, and k is their number; else its rows give m.
template <typename T, bool kTransposedA, bool kTransposedB>
struct Products {
  using Element = T;
  using Result = std::conditional_t<kTransposedA, float, T>;
  using A = Operand<T, !kTransposedA>;
  using B = Operand<T, kTransposedB>;
  struct Stage {
    A a;
    B b;
  };
  static constexpr int kBytes = kStages * static_cast<int>(sizeof(Stage));

  const T* a;
  const T* b;
  Result* c;
  ExpertStarts starts;
  int64_t m;
  int64_t n;
  int64_t k;
  bool accumulate;
  bool vectors;  // rows consist of whole vectors, aligned to 16 bytes

  __device__ int64_t a_stride() const { return kTransposedA ? m : k; }
  __device__ int64_t b_stride() const { return kTransposedB ? k : n; }

  // A block's part of one of the products.
  struct Part {
    const T* a;
    const T* b;
    Result* c;
    int rows;  // up to kTile
    int columns;
    int64_t terms;
  };
  __device__ Part part() const {
    const int64_t across = ceil_div(n, kTile);
    if constexpr (kTransposedA) {
      const int64_t column = blockIdx.x % across * kTile;
      const int64_t tile = blockIdx.x / across;
      const int64_t row = tile % ceil_div(m, kTile) * kTile;
      const ExpertRows rows = starts.rows(tile / ceil_div(m, kTile));
      return {a + rows.first * m + row,
              b + rows.first * n + column,
              c + (rows.expert * m + row) * n + column,
              up_to_a_tile(m - row),
              up_to_a_tile(n - column),
              rows.rows};
    } else {
      const int64_t in_band = blockIdx.x % (kBand * across);
      const int64_t column = in_band / kBand * kTile;
      const ExpertRows rows =
          starts.tile<kTile>(blockIdx.x / (kBand * across) * kBand + in_band % kBand);
      return {
          a + rows.first * k,          b + rows.expert * k * n + column * (kTransposedB ? k : 1),
          c + rows.first * n + column, up_to_a_tile(rows.rows),
          up_to_a_tile(n - column),    k};
    }
  }
  __device__ static int up_to_a_tile(int64_t left) {
    return static_cast<int>(smaller<int64_t>(left, kTile));
  }
};

// Writes sums in f32.
template <typename P>
__device__ void write_floats(const P& p, const typename P::Part& part,
                             const Sums<typename P::Element>& sums) {
  sums.each([&](int row, int column, auto values) {
    constexpr int kCount = decltype(values)::kSize;
    if (row >= part.rows || column >= part.columns) {
      return;
    }
    float* to = part.c + row * p.n + column;
    if (p.vectors) {
      if (p.accumulate) {
        values = apply(Sum{}, load_vector<float, kCount>(to), values);
      }
      store_vector(to, values);
      return;
    }
    for (int i = 0; i < kCount && column + i < part.columns; ++i) {
      to[i] = p.accumulate ? to[i] + values.element[i] : values.element[i];
    }
  });
}

// Writes rounded sums, which go through shared memory for accesses of 16 bytes.
template <typename P>
__device__ void write_rounded(const P& p, const typename P::Part& part,
                              const Sums<typename P::Element>& sums) {
  using Element = typename P::Element;
  using Tile = Operand<Element, false>;
  constexpr int kPer = kPerVector<Element>;
  constexpr int kAcross = kTile / kPer;
  static_assert(kTile * Tile::kStride * static_cast<int>(sizeof(Element)) <= P::kBytes);
  auto* tile = static_cast<Element*>(dynamic_memory());
  __syncthreads();  // others may still multiply
  sums.each([&](int row, int column, const Vector<float, 2>& values) {
    store_vector(tile + row * Tile::kStride + column,
                 narrow<Element>(values.element[0], values.element[1]));
  });
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x) % kAcross * kPer;
  for (int row = static_cast<int>(threadIdx.x) / kAcross; row < part.rows && column < part.columns;
       row += Sums<Element>::kThreads / kAcross) {
    const Element* from = tile + row * Tile::kStride + column;
    Element* to = part.c + row * p.n + column;
    if (p.vectors) {
      store_vector(to, load_vector(from));
    } else {
      for (int i = 0; i < kPer && column + i < part.columns; ++i) {
        to[i] = from[i];
      }
    }
  }
}

template <typename P>
__global__ void __launch_bounds__(Sums<typename P::Element>::kThreads, 2) grouped_kernel(P p) {
  using SumsOf = Sums<typename P::Element>;
  constexpr int kTerms = kStep<typename P::Element>;
  const auto part = p.part();
  if (part.rows == 0 || (p.accumulate && part.terms == 0)) {
    return;
  }
  auto* stages = static_cast<typename P::Stage*>(dynamic_memory());
  const auto steps = static_cast<int>(ceil_div(part.terms, kTerms));
  const auto copy_both = [&](int step, bool vectors) {
    auto& to = stages[step % kStages];
    const int64_t first = int64_t{step} * kTerms;
    to.a.template copy<SumsOf::kThreads>(part.a, p.a_stride(), part.rows, first, part.terms,
                                         vectors);
    to.b.template copy<SumsOf::kThreads>(part.b, p.b_stride(), part.columns, first, part.terms,
                                         vectors);
  };
  const auto copy = [&](int step) {
    if (step < steps) {
      p.vectors ? copy_both(step, true) : copy_both(step, false);
    }
    __pipeline_commit();
  };
  for (int step = 0; step < kStages - 1; ++step) {
    copy(step);
  }
  SumsOf sums;
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();  // this step has arrived, and all threads have multiplied the last one
    copy(step + kStages - 1);
    sums.add(stages[step % kStages].a, stages[step % kStages].b);
  }
  if constexpr (std::is_same_v<typename P::Result, float>) {
    write_floats(p, part, sums);
  } else {
    write_rounded(p, part, sums);
  }
}

template <typename P>
void multiply(Stream& stream, const P& p, int64_t tiles_of_rows) {
  const int64_t blocks = tiles_of_rows * ceil_div(p.n, kTile);
  launch_with_memory(stream, grouped_kernel<P>, grid_of(blocks),
                     Sums<typename P::Element>::kThreads, P::kBytes, p);
}

template <typename Element>
bool in_vectors(const ExpertSize& size) {
  return size.k % kPerVector<Element> == 0 && size.n % kPerVector<Element> == 0;
}

}  // namespace

template <typename Element>
void grouped_product(Stream& stream, const GroupedProduct<Element>& product, const int32_t* counts,
                     const ExpertSize& size) {
  const auto& [x, w, y, k, n, transpose_w] = product;
  const bool vectors = in_vectors<Element>(size) && aligned16(x, w, y);
  const ExpertStarts starts = expert_starts(stream, counts, size);
  // Every expert has less than a tile that is not full.
  const int64_t most = size.rows == 0 ? 0 : size.rows / kTile + size.experts;
  const int64_t tiles = ceil_div(most, kBand) * kBand;
  if (transpose_w) {
    multiply(stream, Products<Element, false, true>{x, w, y, starts, 0, n, k, false, vectors},
             tiles);
  } else {
    multiply(stream, Products<Element, false, false>{x, w, y, starts, 0, n, k, false, vectors},
             tiles);
  }
}

template <typename Element>
void grouped_weight_gradient(Stream& stream, const ExpertMatmulBackwardWeight<Element>& args) {
  const ExpertSize& size = args.size;
  const bool vectors = in_vectors<Element>(size) && aligned16(args.x, args.dy, args.dw);
  multiply(stream,
           Products<Element, true, false>{args.x, args.dy, args.dw,
                                          expert_starts(stream, args.counts, size), size.k, size.n,
                                          0, args.accumulate, vectors},
           size.experts * ceil_div(size.k, kTile));
}

HIDUP_INSTANTIATE(grouped_product);
HIDUP_INSTANTIATE(grouped_weight_gradient);

}  // namespace hidup::kernels
