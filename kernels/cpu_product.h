// The product of whole matrices in tiles, by the team (tiled_product_cpu.cpp). For CPU kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cpu_versions.h"
#include "kernels/matmul.h"

namespace hidup::kernels {

struct ResultTile {
  int64_t row, column;
  int64_t rows, columns;
};

// finish(tile, sums, stride) runs for every tile, on the thread that computed it. With a type of
// its own per kernel the whole product would be compiled once for each.
using FinishTile = std::function<void(const ResultTile&, const float*, int64_t)>;

// Returns finish() as vector code for the running CPU; it may not throw.
template <typename Finish>
FinishTile for_tiles(const Finish& finish) {
  return [finish](const ResultTile& tile, const float* sums, int64_t stride) {
    versioned([&] { finish(tile, sums, stride); });
  };
}

// c (+)= op(a) op(b), of `Element`s; sums are floats.
template <typename Element>
struct Product {
  const Element* a;
  const Element* b;
  MatmulShape shape;  // the stride of c is that of `sums`
  // Indices of the stored rows of a and b; null: all rows in order.
  const int64_t* a_places = nullptr;
  const int64_t* b_places = nullptr;
  // Memory for the sums; null: scratch memory, without accumulation.
  float* sums = nullptr;
  bool accumulate = false;
  FinishTile finish;  // null: the sums are the result
};

// Computes the products, which the team shares.
template <typename Element>
void compute(const std::vector<Product<Element>>& products);

}  // namespace hidup::kernels
