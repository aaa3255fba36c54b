// The shape alone decides the tiles, the order of the pieces of k, and so the rounding. oneDNN is
// slow if the rows of an operand are far apart, or are columns of the product. So tiles read dense
// copies of floats. A thread copies the part of one operand for a row or column of tiles, a panel,
// just before it computes them, so that the panel is in the thread's cache. The team copies the
// other operand beforehand, a piece of k at a time, unless it is rows of floats. Native bf16
// products copy only rows that are not contiguous.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/arithmetic.h"
#include "kernels/cpu_gemm.h"
#include "kernels/cpu_product.h"
#include "kernels/cpu_team.h"
#include "kernels/elements.h"

namespace hidup::kernels {
namespace {

// Tiles of nearly equal size. oneDNN's kernels compute 48 columns at a time with AVX-512.
class ResultTiles {
 public:
  // Chooses the largest tiles of which there are at least `enough`, if the product is that large.
  ResultTiles(MatmulShape shape, int64_t enough) : m_(shape.m), n_(shape.n) {
    for (const auto& [rows, columns] : {std::pair{256, 192}, {256, 96}, {128, 96}}) {
      rows_ = part_of(m_, rows);
      columns_ = part_of(n_, columns);
      if (count() >= enough) {
        break;
      }
    }
  }

  int64_t count() const { return down() * across(); }
  int64_t row_size() const { return rows_; }
  int64_t column_size() const { return columns_; }
  int64_t down() const { return ceil_div(m_, rows_); }
  int64_t across() const { return ceil_div(n_, columns_); }

  // Numbers the tiles row by row, or column by column.
  ResultTile tile(int64_t index, bool by_rows) const {
    const int64_t row = (by_rows ? index / across() : index % down()) * rows_;
    const int64_t column = (by_rows ? index % across() : index / down()) * columns_;
    return {row, column, std::min(rows_, m_ - row), std::min(columns_, n_ - column)};
  }

 private:
  // Returns the part's size for an extent in as few parts as `most` allows.
  static int64_t part_of(int64_t extent, int64_t most) {
    const int64_t parts = std::max<int64_t>(1, ceil_div(extent, most));
    return std::max<int64_t>(16, ceil_div(ceil_div(extent, parts), 16) * 16);
  }

  int64_t m_;
  int64_t n_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
};

// A piece of k.
struct Depth {
  int64_t first;
  int64_t size;
};

// A product in tiles, a piece of k at a time. Copied: element type of operand copies, from which
// products are computed: float or `Element`.
template <typename Copied, typename Element>
class TiledProduct {
 public:
  TiledProduct(const Product<Element>& product, int64_t enough_tiles)
      : product_(product),
        shape_(product.shape),
        tiles_(shape_, enough_tiles),
        by_rows_(kFloats && copies_a() && shape_.m > shape_.n) {}

  int64_t pieces() const { return std::max<int64_t>(1, ceil_div(shape_.k, kPiece)); }
  int64_t tiles() const { return tiles_.count(); }

  // Returns the number of floats of scratch memory for the sums; use_scratch() precedes the sums.
  int64_t scratch_sums() const {
    return product_.sums == nullptr && pieces() > 1 ? shape_.m * shape_.n : 0;
  }
  void use_scratch(float* sums) {
    product_.sums = sums;
    shape_.c_stride = shape_.n;
  }

  // Describe the operand that all threads need copied for a piece: b if tiles are taken by rows,
  // otherwise a. It consists of copied_parts() with copied_elements() in all.
  int64_t copied_parts() const {
    return !copies_a() ? 0 : by_rows_ ? tiles_.across() : tiles_.down();
  }
  int64_t copied_elements() const {
    return !copies_a() ? 0 : (by_rows_ ? shape_.n : shape_.m) * depth_of(0).size;
  }
  void copy_part(int64_t part, int64_t piece, Copied* copy) const {
    const Depth depth = depth_of(piece);
    if (by_rows_) {
      const int64_t column = part * tiles_.column_size();
      const int64_t columns = std::min(tiles_.column_size(), shape_.n - column);
      copy_columns(column, columns, depth, copy + column * depth.size);
    } else {
      const int64_t row = part * tiles_.row_size();
      copy_rows(row, std::min(tiles_.row_size(), shape_.m - row), depth, copy + row * depth.size);
    }
  }

  // Sums consecutive tiles: those of one row or column share a panel.
  void sum_tiles(int64_t begin, int64_t end, int64_t piece, const Copied* copy) const {
    thread_local std::vector<Copied> panel_memory;
    const Depth depth = depth_of(piece);
    Copied* const panel =
        scratch(panel_memory, std::max(tiles_.row_size(), tiles_.column_size()) * depth.size);
    int64_t panel_first = -1;
    for (int64_t index = begin; index < end; ++index) {
      const ResultTile tile = tiles_.tile(index, by_rows_);
      const int64_t first = by_rows_ ? tile.row : tile.column;
      if (first != panel_first) {
        panel_first = first;
        copy_panel(tile, depth, panel);
      }
      sum_tile(tile, piece, copy, panel);
    }
  }

 private:
  static constexpr bool kFloats = std::is_same_v<Copied, float>;
  static constexpr bool kAsTheyAre = std::is_same_v<Copied, Element>;
  // Rows of b that are summed at a time: a panel of floats has 768 KB, for a core's own cache.
  static constexpr int64_t kPiece = kFloats ? 1024 : 4096;
  // Results per copied float that make a copy worthwhile.
  static constexpr int64_t kWorthCopying = 192;

  bool copies_a() const {
    return !kAsTheyAre || product_.a_places != nullptr ||
           (kFloats && shape_.transpose_a && shape_.n >= 2 * kWorthCopying);
  }
  bool copies_b() const {
    return !kAsTheyAre || product_.b_places != nullptr || by_rows_ ||
           (kFloats && shape_.m >= kWorthCopying);
  }

  Depth depth_of(int64_t piece) const {
    const int64_t size = ceil_div(ceil_div(shape_.k, pieces()), 16) * 16;
    const int64_t first = std::min(piece * size, shape_.k);
    return {first, std::min(size, shape_.k - first)};
  }

  // Return the rows of op(a) and the columns of op(b) from an index on.
  ConstMatrix<Element> rows_from(int64_t row, const Depth& depth) const {
    const int64_t lda = shape_.lda();
    const int64_t at = shape_.transpose_a ? depth.first * lda + row : row * lda + depth.first;
    return {.data = product_.a + at, .stride = lda, .transposed = shape_.transpose_a};
  }
  ConstMatrix<Element> columns_from(int64_t column, const Depth& depth) const {
    const int64_t ldb = shape_.ldb();
    const int64_t at = shape_.transpose_b ? column * ldb + depth.first : depth.first * ldb + column;
    return {.data = product_.b + at, .stride = ldb, .transposed = shape_.transpose_b};
  }

  // Copy op(a) and op(b) for floats, otherwise a and b as stored.
  void copy_rows(int64_t row, int64_t rows, const Depth& depth, Copied* to) const {
    const RowMajor<Element> a = {product_.a, shape_.lda(), product_.a_places};
    if (!shape_.transpose_a) {
      pack(a, row, depth.first, rows, depth.size, to);
    } else if constexpr (kFloats) {
      pack_transposed(a, depth.first, row, depth.size, rows, to);
    } else {
      pack(a, depth.first, row, depth.size, rows, to);
    }
  }
  void copy_columns(int64_t column, int64_t columns, const Depth& depth, Copied* to) const {
    const RowMajor<Element> b = {product_.b, shape_.ldb(), product_.b_places};
    if (!shape_.transpose_b) {
      pack(b, depth.first, column, depth.size, columns, to);
    } else if constexpr (kFloats) {  // of other types only rows are copied, those of dy
      pack_transposed(b, column, depth.first, columns, depth.size, to);
    }
  }
  void copy_panel(const ResultTile& tile, const Depth& depth, Copied* panel) const {
    if (by_rows_) {
      copy_rows(tile.row, tile.rows, depth, panel);
    } else if (copies_b()) {
      copy_columns(tile.column, tile.columns, depth, panel);
    }
  }

  void sum_tile(const ResultTile& tile, int64_t piece, const Copied* copy,
                const Copied* panel) const {
    thread_local std::vector<float> memory;
    const bool apart = product_.sums == nullptr;
    float* const sums = apart ? scratch(memory, tile.rows * tile.columns)
                              : product_.sums + tile.row * shape_.ldc() + tile.column;
    const int64_t stride = apart ? tile.columns : shape_.ldc();
    const bool add = product_.accumulate || piece > 0;
    const Depth depth = depth_of(piece);
    if (depth.size > 0) {
      multiply(tile, depth, copy, panel, add ? 1.0F : 0.0F, sums, stride);
    } else if (!add) {
      for (int64_t row = 0; row < tile.rows; ++row) {
        std::fill_n(sums + row * stride, tile.columns, 0.0F);
      }
    }
    if (piece == pieces() - 1 && product_.finish != nullptr) {
      product_.finish(tile, sums, stride);
    }
  }

  void multiply(const ResultTile& tile, const Depth& depth, const Copied* copy, const Copied* panel,
                float beta, float* sums, int64_t stride) const {
    const bool turned_a = shape_.transpose_a && !kFloats;
    ConstMatrix<Copied> a = {.data = by_rows_ ? panel : copy + tile.row * depth.size,
                             .stride = turned_a ? tile.rows : depth.size,
                             .transposed = turned_a};
    ConstMatrix<Copied> b = {.data = by_rows_ ? copy + tile.column * depth.size : panel,
                             .stride = tile.columns};
    if constexpr (kAsTheyAre) {
      a = copies_a() ? a : rows_from(tile.row, depth);
      b = copies_b() ? b : columns_from(tile.column, depth);
    }
    gemm(tile.rows, tile.columns, depth.size, a, b, beta, sums, stride);
  }

  Product<Element> product_;
  MatmulShape shape_;
  ResultTiles tiles_;
  bool by_rows_;
};

// Concatenated ranges, one per product.
class Stretches {
 public:
  template <typename Products, typename Size>
  Stretches(const Products& products, Size size) {
    for (const auto& product : products) {
      starts_.push_back(starts_.back() + size(product));
    }
  }
  int64_t total() const { return starts_.back(); }
  int64_t start(size_t product) const { return starts_[product]; }

  // Calls visit(product, first, last) for the parts of [begin, end), counted within each product.
  template <typename Visit>
  void visit(int64_t begin, int64_t end, Visit visit) const {
    auto i = static_cast<size_t>(std::ranges::upper_bound(starts_, begin) - starts_.begin()) - 1;
    for (; begin < end; ++i) {
      const int64_t last = std::min(end, starts_[i + 1]);
      visit(i, begin - starts_[i], last - starts_[i]);
      begin = last;
    }
  }

 private:
  std::vector<int64_t> starts_ = {0};
};

template <typename Copied, typename Element>
void compute_by_way_of(const std::vector<Product<Element>>& given) {
  constexpr int64_t kThreads = 32;  // the least number of threads that should have tiles
  thread_local std::vector<float> sums_memory;
  thread_local std::vector<Copied> copy_memory;
  std::vector<TiledProduct<Copied, Element>> products;
  products.reserve(given.size());
  for (const auto& product : given) {
    products.emplace_back(product, ceil_div(kThreads, static_cast<int64_t>(given.size())));
  }
  const Stretches sums(products, [](const auto& p) { return p.scratch_sums(); });
  const Stretches parts(products, [](const auto& p) { return p.copied_parts(); });
  const Stretches elements(products, [](const auto& p) { return p.copied_elements(); });
  const Stretches tiles(products, [](const auto& p) { return p.tiles(); });
  float* const scratch_sums = scratch(sums_memory, sums.total());
  Copied* const copies = scratch(copy_memory, elements.total());
  int64_t pieces = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    pieces = std::max(pieces, products[i].pieces());
    if (products[i].scratch_sums() > 0) {
      products[i].use_scratch(scratch_sums + sums.start(i));
    }
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    for_shares(parts.total(), [&](int64_t begin, int64_t end) {
      parts.visit(begin, end, [&](size_t i, int64_t first, int64_t last) {
        for (int64_t part = first; piece < products[i].pieces() && part < last; ++part) {
          products[i].copy_part(part, piece, copies + elements.start(i));
        }
      });
    });
    for_shares(tiles.total(), [&](int64_t begin, int64_t end) {
      tiles.visit(begin, end, [&](size_t i, int64_t first, int64_t last) {
        if (piece < products[i].pieces()) {
          products[i].sum_tiles(first, last, piece, copies + elements.start(i));
        }
      });
    });
  }
}

}  // namespace

template <typename Element>
void compute(const std::vector<Product<Element>>& products) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    if (bf16_is_native()) {
      return compute_by_way_of<BFloat16>(products);
    }
  }
  compute_by_way_of<float>(products);
}

HIDUP_INSTANTIATE(compute);

}  // namespace hidup::kernels
