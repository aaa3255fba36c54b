// Functions of each element, by vectors if the addresses allow it. For CUDA kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda_elements.h"

namespace hidup::kernels {

// y may be a or b.
template <typename Function, typename Element>
__global__ void __launch_bounds__(kThreads)
    map_kernel(Function function, const Element* a, const Element* b, Element* y, int64_t n,
               int64_t vectors) {
  using V = Vector<Element>;
  for (int64_t i = thread_of_grid(); i < vectors; i += threads_of_grid()) {
    reinterpret_cast<V*>(y)[i] =
        apply(function, reinterpret_cast<const V*>(a)[i], reinterpret_cast<const V*>(b)[i]);
  }
  for (int64_t i = kPerVector<Element> * vectors + thread_of_grid(); i < n;
       i += threads_of_grid()) {
    y[i] = narrow<Element>(function(widen(a[i]), widen(b[i])));
  }
}

// y[i] = function(a[i], b[i]), in float; a function of one argument gets the same array twice.
template <typename Function, typename Element>
void map_elements(Stream& stream, Function function, const Element* a, const Element* b, Element* y,
                  int64_t n) {
  const int64_t vectors = aligned16(a, b, y) ? n / kPerVector<Element> : 0;
  launch(stream, map_kernel<Function, Element>, blocks_for(n, kPerVector<Element> * kThreads),
         kThreads, function, a, b, y, n, vectors);
}

}  // namespace hidup::kernels
