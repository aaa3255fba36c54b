#include "kernels/add.h"
#include "kernels/cuda_elementwise.h"

namespace hidup::kernels {

void add_forward(Stream& stream, const float* a, const float* b, float* y, int64_t n) {
  map_elements(stream, Sum{}, a, b, y, n);
}

}  // namespace hidup::kernels
