// Inside the CPU kernels: the product of whole matrices, summed by the team in tiles
// (tiled_product_cpu.cpp).
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

// Called as finish(tile, sums, stride) for every tile, on the thread that computed it. Were it a
// type of its own per kernel, all of a product would be compiled anew for each.
using FinishTile = std::function<void(const ResultTile&, const float*, int64_t)>;

// finish(), as vector code for the CPU that runs it; it may not throw.
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
  // Where the stored rows of a and b are, counted in rows; null: one after the other.
  const int64_t* a_places = nullptr;
  const int64_t* b_places = nullptr;
  // Where the sums go; null: to scratch memory, where they are added to nothing.
  float* sums = nullptr;
  bool accumulate = false;
  FinishTile finish;  // null: the sums are the result
};

// The team computes products side by side.
template <typename Element>
void compute(const std::vector<Product<Element>>& products);

}  // namespace hidup::kernels
