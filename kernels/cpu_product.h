// Inside the CPU kernels: the product of whole matrices, summed by the team in tiles.
//
// The tiles, and the pieces of k that are summed one after the other, depend on the shape alone, as
// the rounding does. oneDNN is slow where the rows of an operand are far apart or are its columns,
// so tiles read dense copies of floats. Of one operand a thread copies what a row or a column of
// tiles needs (a panel) just before it computes them, so that it lies in the thread's cache. The
// other is copied by the team beforehand, a piece of k at a time, unless it is rows of floats.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu_gemm.h"
#include "kernels/cpu_team.h"
#include "kernels/matmul.h"

namespace hidup::kernels {

struct ResultTile {
  int64_t row, column;
  int64_t rows, columns;
};

class ResultTiles {
 public:
  // Enough tiles for 32 threads, if the product is that large.
  explicit ResultTiles(MatmulShape shape) : m_(shape.m), n_(shape.n) {
    rows_ = ceil_div(m_, 256) * across() >= 32 ? 256 : 128;
  }

  int64_t count() const { return down() * across(); }
  int64_t row_size() const { return rows_; }
  int64_t column_size() const { return kColumns; }
  int64_t down() const { return ceil_div(m_, rows_); }
  int64_t across() const { return ceil_div(n_, kColumns); }

  // One after the other of a row, or of a column.
  ResultTile tile(int64_t index, bool by_rows) const {
    const int64_t row = (by_rows ? index / across() : index % down()) * rows_;
    const int64_t column = (by_rows ? index % across() : index / down()) * kColumns;
    return {row, column, std::min(rows_, m_ - row), std::min(kColumns, n_ - column)};
  }

 private:
  static constexpr int64_t kColumns = 128;
  int64_t m_;
  int64_t n_;
  int64_t rows_;
};

// A product of `Element`s, whose sums are floats.
template <typename Element>
class Product {
 public:
  Product(const Element* a, const Element* b, MatmulShape shape)
      : a_(a), b_(b), shape_(shape), tiles_(shape), by_rows_(copies_a() && shape.m > shape.n) {}

  // c (+)= the product; rows of c are `stride` elements apart. finish(tile, sums, stride) follows
  // for every tile, on the thread that computed it, and may not throw. If c is null, the sums are
  // in scratch memory until then, and are not added to anything.
  template <typename Finish>
  void sum(float* c, int64_t stride, bool accumulate, Finish finish) {
    const int64_t pieces = std::max<int64_t>(1, ceil_div(shape_.k, kPiece));
    if (c == nullptr && pieces > 1) {
      thread_local std::vector<float> memory;
      c = scratch(memory, shape_.m * shape_.n);
      stride = shape_.n;
    }
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const Piece depth = piece_of(piece, pieces);
      const float* const copy = copy_beforehand(depth);
      for_shares(tiles_.count(), [&](int64_t begin, int64_t end) {
        const Sums sums = {.c = c, .stride = stride, .add = accumulate || piece > 0};
        sum_tiles(begin, end, depth, copy, sums, [&](const ResultTile& tile, float* at, int64_t s) {
          if (piece == pieces - 1) {
            finish(tile, at, s);
          }
        });
      });
    }
  }

 private:
  // Rows of float or less are summed at a time: 512 KB of a panel, for the caches of one core.
  static constexpr int64_t kPiece = 1024;
  // Products with fewer rows than this are not worth a copy of b.
  static constexpr int64_t kRowsWorthCopying = 48;

  struct Piece {
    int64_t first;
    int64_t size;
  };
  struct Sums {
    float* c;
    int64_t stride;
    bool add;
  };

  static constexpr bool kFloats = std::is_same_v<Element, float>;

  bool copies_a() const { return !kFloats || shape_.transpose_a; }
  bool copies_b() const { return !kFloats || shape_.m >= kRowsWorthCopying; }

  Piece piece_of(int64_t index, int64_t pieces) const {
    const int64_t size = ceil_div(ceil_div(shape_.k, pieces), 16) * 16;
    const int64_t first = std::min(index * size, shape_.k);
    return {first, std::min(size, shape_.k - first)};
  }

  // The rows of op(a) and the columns of op(b) from there on.
  ConstMatrix<Element> rows_from(int64_t row, const Piece& depth) const {
    const int64_t lda = shape_.lda();
    return {.data = a_ + (shape_.transpose_a ? depth.first * lda + row : row * lda + depth.first),
            .stride = lda,
            .transposed = shape_.transpose_a};
  }
  ConstMatrix<Element> columns_from(int64_t column, const Piece& depth) const {
    const int64_t ldb = shape_.ldb();
    return {
        .data = b_ + (shape_.transpose_b ? column * ldb + depth.first : depth.first * ldb + column),
        .stride = ldb,
        .transposed = shape_.transpose_b};
  }

  void copy_rows(int64_t row, int64_t rows, const Piece& depth, float* to) const noexcept {
    pack(rows_from(row, depth), rows, depth.size, to);
  }
  void copy_columns(int64_t column, int64_t columns, const Piece& depth, float* to) const noexcept {
    pack(columns_from(column, depth), depth.size, columns, to);
  }

  // What all threads need of a piece: b if tiles are taken by rows, otherwise a; null if none does.
  const float* copy_beforehand(const Piece& depth) const {
    thread_local std::vector<float> memory;
    if (!copies_a()) {
      return nullptr;
    }
    float* const copy = scratch(memory, (by_rows_ ? shape_.n : shape_.m) * depth.size);
    const int64_t step = by_rows_ ? tiles_.column_size() : tiles_.row_size();
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < (by_rows_ ? tiles_.across() : tiles_.down()); ++i) {
      const int64_t first = i * step;
      if (by_rows_) {
        copy_columns(first, std::min(step, shape_.n - first), depth, copy + first * depth.size);
      } else {
        copy_rows(first, std::min(step, shape_.m - first), depth, copy + first * depth.size);
      }
    }
    return copy;
  }

  // Tiles that follow one another: those of one row or column share a panel.
  template <typename Finish>
  void sum_tiles(int64_t begin, int64_t end, const Piece& depth, const float* copy,
                 const Sums& sums, Finish finish) const noexcept {
    thread_local std::vector<float> panel_memory;
    thread_local std::vector<float> sums_memory;
    float* const panel =
        scratch(panel_memory, std::max(tiles_.row_size(), tiles_.column_size()) * depth.size);
    int64_t panel_first = -1;
    for (int64_t index = begin; index < end; ++index) {
      const ResultTile tile = tiles_.tile(index, by_rows_);
      const int64_t first = by_rows_ ? tile.row : tile.column;
      if (first != panel_first) {
        panel_first = first;
        if (by_rows_) {
          copy_rows(tile.row, tile.rows, depth, panel);
        } else if (copies_b()) {
          copy_columns(tile.column, tile.columns, depth, panel);
        }
      }
      const bool apart = sums.c == nullptr;
      float* const at = apart ? scratch(sums_memory, tile.rows * tile.columns)
                              : sums.c + tile.row * sums.stride + tile.column;
      const int64_t stride = apart ? tile.columns : sums.stride;
      multiply(tile, depth, copy, panel, at, stride, sums.add);
      finish(tile, at, stride);
    }
  }

  void multiply(const ResultTile& tile, const Piece& depth, const float* copy, const float* panel,
                float* c, int64_t stride, bool add) const noexcept {
    if (depth.size == 0) {
      for (int64_t row = 0; row < (add ? 0 : tile.rows); ++row) {
        std::fill_n(c + row * stride, tile.columns, 0.0F);
      }
      return;
    }
    ConstMatrix<float> a = {.data = by_rows_ ? panel : copy + tile.row * depth.size,
                            .stride = depth.size};
    ConstMatrix<float> b = {.data = by_rows_ ? copy + tile.column * depth.size : panel,
                            .stride = tile.columns};
    if constexpr (kFloats) {
      a = copies_a() ? a : rows_from(tile.row, depth);
      b = copies_b() || by_rows_ ? b : columns_from(tile.column, depth);
    }
    gemm(tile.rows, tile.columns, depth.size, a, b, add ? 1.0F : 0.0F, c, stride);
  }

  const Element* a_;
  const Element* b_;
  MatmulShape shape_;
  ResultTiles tiles_;
  bool by_rows_;
};

}  // namespace hidup::kernels
