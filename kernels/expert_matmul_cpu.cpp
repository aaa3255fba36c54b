#include "kernels/expert_matmul.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu_gemm.h"
#include "kernels/cpu_math.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Some of the rows in use of one expert, which are counted over the sequences one after the other.
struct Rows {
  int64_t expert;
  int64_t first;
  int64_t count;
};

// Part of a product of one expert.
struct Tile {
  Rows rows;
  int64_t column;
  int64_t columns;
};

int64_t rows_in_use(const int32_t* counts, const ExpertSize& size, int64_t expert) {
  int64_t sum = 0;
  for (int64_t b = 0; b < size.batch; ++b) {
    sum += counts[expert * size.batch + b];
  }
  return sum;
}

// visit(at, n): n of the rows lie together, from row `at` of [experts * batch * capacity] on.
template <typename Visit>
void for_each_run(const Rows& rows, const int32_t* counts, const ExpertSize& size, Visit visit) {
  int64_t skip = rows.first;
  int64_t left = rows.count;
  for (int64_t b = 0; b < size.batch && left > 0; ++b) {
    const int64_t index = rows.expert * size.batch + b;
    const int64_t n = std::min(counts[index] - skip, left);
    if (n > 0) {
      visit(index * size.capacity + skip, n);
      left -= n;
      skip = 0;
    } else {
      skip -= counts[index];
    }
  }
}

// Where in the tensors the rows are if they lie together, otherwise -1.
int64_t place_of(const Rows& rows, const int32_t* counts, const ExpertSize& size) {
  int64_t place = -1;
  for_each_run(rows, counts, size, [&](int64_t at, int64_t n) {
    if (n == rows.count) {
      place = at;
    }
  });
  return place;
}

// Columns of a tensor with rows of `width`.
template <typename Element>
struct Columns {
  const Element* data;
  int64_t width;
  int64_t first;
  int64_t count;
};

// The rows as one matrix of floats: where they are if they are that and lie together (at `place`),
// otherwise copied to `memory`.
template <typename Element>
ConstMatrix<float> matrix_of(const Rows& rows, int64_t place, const Columns<Element>& columns,
                             const int32_t* counts, const ExpertSize& size,
                             std::vector<float>& memory) {
  const Element* from = columns.data + columns.first;
  if constexpr (std::is_same_v<Element, float>) {
    if (place >= 0) {
      return {.data = from + place * columns.width, .stride = columns.width};
    }
  }
  float* const copy = scratch(memory, rows.count * columns.count);
  float* to = copy;
  for_each_run(rows, counts, size, [&](int64_t at, int64_t n) {
    for (int64_t row = at; row < at + n; ++row) {
      widen(from + row * columns.width, columns.count, to);
      to += columns.count;
    }
  });
  return {.data = copy, .stride = columns.count};
}

struct TileSize {
  int64_t rows;
  int64_t columns;
};

// The tile size for all experts' products: the largest that gives 32 threads work, because large
// tiles copy least. count(size) says how many tiles there would be. Only shapes and counts decide,
// because the rounding depends on the tiles. With a transposed w tiles have at least 256 rows:
// oneDNN does not repack w for fewer.
template <typename Count>
TileSize tile_size(bool transposed, Count count) {
  const TileSize smallest = {transposed ? 256 : 128, 128};
  TileSize size = {512, 512};
  while (count(size) < 32) {
    if (size.rows > smallest.rows &&
        (size.rows > size.columns || size.columns == smallest.columns)) {
      size.rows /= 2;
    } else if (size.columns > smallest.columns) {
      size.columns /= 2;
    } else {
      break;
    }
  }
  return size;
}

// y = x op(w) of every expert; x has rows of k, y of n.
template <typename Element>
struct Product {
  const Element* x;
  const Element* w;
  Element* y;
  int64_t k;
  int64_t n;
  bool transposed;
};

template <typename Element>
void multiply_tile(const Product<Element>& p, const Tile& tile, const int32_t* counts,
                   const ExpertSize& size) {
  thread_local std::vector<float> gathered;
  thread_local std::vector<float> panel_memory;
  thread_local std::vector<float> memory;
  const Rows& rows = tile.rows;
  const int64_t place = place_of(rows, counts, size);
  const Columns<Element> inputs = {.data = p.x, .width = p.k, .first = 0, .count = p.k};
  const ConstMatrix<float> x = matrix_of(rows, place, inputs, counts, size, gathered);
  const ConstMatrix<Element> w = {
      .data = p.w + rows.expert * p.k * p.n + tile.column * (p.transposed ? p.k : 1),
      .stride = p.transposed ? p.k : p.n,
      .transposed = p.transposed};
  float* const panel = scratch(panel_memory, p.k * tile.columns);
  pack(w, p.k, tile.columns, panel);
  const ConstMatrix<float> w_panel = {.data = panel, .stride = tile.columns};
  if constexpr (std::is_same_v<Element, float>) {
    if (place >= 0) {
      gemm(rows.count, tile.columns, p.k, x, w_panel, 0.0F, p.y + place * p.n + tile.column, p.n);
      return;
    }
  }
  float* const products = scratch(memory, rows.count * tile.columns);
  gemm(rows.count, tile.columns, p.k, x, w_panel, 0.0F, products, tile.columns);
  const float* result = products;
  for_each_run(rows, counts, size, [&](int64_t at, int64_t n) {
    for (int64_t row = at; row < at + n; ++row) {
      narrow(result, tile.columns, p.y + row * p.n + tile.column);
      result += tile.columns;
    }
  });
}

// The tiles of all experts' products. Valid until the next call on this thread.
template <typename Element>
const std::vector<Tile>& tiles_of(const Product<Element>& p, const int32_t* counts,
                                  const ExpertSize& size) {
  thread_local std::vector<Tile> tiles;
  tiles.clear();
  if (p.k == 0) {
    return tiles;
  }
  const TileSize extent = tile_size(p.transposed, [&](TileSize at_most) {
    int64_t count = 0;
    for (int64_t e = 0; e < size.experts; ++e) {
      count += ceil_div(rows_in_use(counts, size, e), at_most.rows);
    }
    return count * ceil_div(p.n, at_most.columns);
  });
  for (int64_t e = 0; e < size.experts; ++e) {
    const int64_t rows = rows_in_use(counts, size, e);
    for (int64_t row = 0; row < rows; row += extent.rows) {
      for (int64_t column = 0; column < p.n; column += extent.columns) {
        tiles.push_back({.rows = {e, row, std::min(extent.rows, rows - row)},
                         .column = column,
                         .columns = std::min(extent.columns, p.n - column)});
      }
    }
  }
  return tiles;
}

// Rows without a product, which are those not in use, or all if k = 0, become zeros.
template <typename Element>
void multiply(const Product<Element>& p, const int32_t* counts, const ExpertSize& size) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < size.batch * size.experts * size.capacity; ++row) {
    if (p.k == 0 || row % size.capacity >= counts[row / size.capacity]) {
      std::fill_n(p.y + row * p.n, p.n, Element(0.0F));
    }
  }
  const std::vector<Tile>& tiles = tiles_of(p, counts, size);
#pragma omp parallel for schedule(dynamic)
  for (size_t i = 0; i < tiles.size(); ++i) {
    multiply_tile(p, tiles[i], counts, size);
  }
}

// One tile of dw = x^T dy of an expert: rows of it are columns of x. The rows of x and dy are
// taken kRows at a time, in order.
template <typename Element>
void sum_tile(const Columns<Element>& x, const Columns<Element>& dy, int64_t expert,
              const int32_t* counts, const ExpertSize& size, float* dw, bool accumulate) {
  constexpr int64_t kRows = 512;
  thread_local std::vector<float> x_memory;
  thread_local std::vector<float> dy_memory;
  float beta = accumulate ? 1.0F : 0.0F;
  const int64_t all = rows_in_use(counts, size, expert);
  for (int64_t row = 0; row < all; row += kRows) {
    const Rows rows = {expert, row, std::min(kRows, all - row)};
    const int64_t place = place_of(rows, counts, size);
    ConstMatrix<float> left = matrix_of(rows, place, x, counts, size, x_memory);
    left.transposed = true;
    const ConstMatrix<float> right = matrix_of(rows, place, dy, counts, size, dy_memory);
    gemm(x.count, dy.count, rows.count, left, right, beta, dw, size.n);
    beta = 1.0F;
  }
  if (all == 0 && !accumulate) {
    for (int64_t i = 0; i < x.count; ++i) {
      std::fill_n(dw + i * size.n, dy.count, 0.0F);
    }
  }
}

}  // namespace

template <typename Element>
void expert_matmul(Stream& stream, const Element* x, const Element* w, const int32_t* counts,
                   Element* y, ExpertSize size) {
  check_size(size);
  stream.enqueue([=] {
    multiply<Element>({.x = x, .w = w, .y = y, .k = size.k, .n = size.n, .transposed = false},
                      counts, size);
  });
}

template <typename Element>
void expert_matmul_backward_input(Stream& stream, const Element* dy, const Element* w,
                                  const int32_t* counts, Element* dx, ExpertSize size) {
  check_size(size);
  stream.enqueue([=] {
    multiply<Element>({.x = dy, .w = w, .y = dx, .k = size.n, .n = size.k, .transposed = true},
                      counts, size);
  });
}

template <typename Element>
void expert_matmul_backward_weight(Stream& stream,
                                   const ExpertMatmulBackwardWeight<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] {
    const ExpertSize& size = args.size;
    const TileSize extent = tile_size(false, [&](TileSize at_most) {
      return size.experts * ceil_div(size.k, at_most.rows) * ceil_div(size.n, at_most.columns);
    });
    const int64_t across = ceil_div(size.n, extent.columns);
    const int64_t tiles = ceil_div(size.k, extent.rows) * across;
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < size.experts * tiles; ++task) {
      const int64_t expert = task / tiles;
      const int64_t row = task % tiles / across * extent.rows;
      const int64_t column = task % across * extent.columns;
      sum_tile<Element>({.data = args.x,
                         .width = size.k,
                         .first = row,
                         .count = std::min(extent.rows, size.k - row)},
                        {.data = args.dy,
                         .width = size.n,
                         .first = column,
                         .count = std::min(extent.columns, size.n - column)},
                        expert, args.counts, size,
                        args.dw + (expert * size.k + row) * size.n + column, args.accumulate);
    }
  });
}

#define INSTANTIATE(Element)                                                                      \
  template decltype(expert_matmul<Element>) expert_matmul<Element>;                               \
  template decltype(expert_matmul_backward_input<Element>) expert_matmul_backward_input<Element>; \
  template decltype(expert_matmul_backward_weight<Element>) expert_matmul_backward_weight<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
