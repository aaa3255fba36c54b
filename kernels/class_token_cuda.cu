#include "kernels/class_token.h"
#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Blocks step through samples; a thread handles some of the `each` output elements of a sample.
dim3 grid_of_samples(const SequenceSize& size, int64_t each) {
  return grid_of(blocks_for(each, kThreads), blocks_for(size.batch, 1));
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    prepend_kernel(const Element* x, const Element* token, Element* y, SequenceSize size) {
  const int64_t sample = size.sequence * size.n;
  const int64_t longer = sample + size.n;
  for (int64_t b = blockIdx.y; b < size.batch; b += gridDim.y) {
    for (int64_t i = thread_of_grid(); i < longer; i += threads_of_grid()) {
      y[b * longer + i] = i < size.n ? token[i] : x[b * sample + i - size.n];
    }
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) without_token_kernel(PrependBackward<Element> args) {
  const int64_t n = args.size.n;
  const int64_t sample = args.size.sequence * n;
  for (int64_t b = blockIdx.y; b < args.size.batch; b += gridDim.y) {
    for (int64_t i = thread_of_grid(); i < sample; i += threads_of_grid()) {
      args.dx[b * sample + i] = args.dy[b * (sample + n) + n + i];
    }
  }
}

// A thread owns a column, for the whole batch.
template <typename Element>
__global__ void __launch_bounds__(kThreads) token_kernel(PrependBackward<Element> args) {
  const int64_t n = args.size.n;
  const int64_t stride = (args.size.sequence + 1) * n;
  for (int64_t j = thread_of_grid(); j < n; j += threads_of_grid()) {
    float sum = args.accumulate ? args.dtoken[j] : 0.0F;
    for (int64_t b = 0; b < args.size.batch; ++b) {
      sum += widen(args.dy[b * stride + j]);
    }
    args.dtoken[j] = sum;
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    first_kernel(const Element* x, Element* y, SequenceSize size, bool here) {
  for (int64_t b = blockIdx.y; b < size.batch; b += gridDim.y) {
    for (int64_t i = thread_of_grid(); i < size.n; i += threads_of_grid()) {
      y[b * size.n + i] = here ? x[b * size.sequence * size.n + i] : narrow<Element>(0.0F);
    }
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    first_backward_kernel(const Element* dy, Element* dx, SequenceSize size, bool here) {
  const int64_t sample = size.sequence * size.n;
  for (int64_t b = blockIdx.y; b < size.batch; b += gridDim.y) {
    for (int64_t i = thread_of_grid(); i < sample; i += threads_of_grid()) {
      dx[b * sample + i] = here && i < size.n ? dy[b * size.n + i] : narrow<Element>(0.0F);
    }
  }
}

}  // namespace

template <typename Element>
void prepend_forward(Stream& stream, const Element* x, const Element* token, Element* y,
                     SequenceSize size) {
  check_prepended("prepend", size);
  const dim3 grid = grid_of_samples(size, (size.sequence + 1) * size.n);
  launch(stream, prepend_kernel<Element>, grid, kThreads, x, token, y, size);
}

template <typename Element>
void prepend_backward(Stream& stream, const PrependBackward<Element>& args) {
  check_prepended("prepend_backward", args.size);
  const dim3 grid = grid_of_samples(args.size, args.size.sequence * args.size.n);
  launch(stream, without_token_kernel<Element>, grid, kThreads, args);
  launch(stream, token_kernel<Element>, blocks_for(args.size.n, kThreads), kThreads, args);
}

template <typename Element>
void first_forward(Stream& stream, const Element* x, Element* y, SequenceSize size, bool here) {
  check_first("first", size, here);
  launch(stream, first_kernel<Element>, grid_of_samples(size, size.n), kThreads, x, y, size, here);
}

template <typename Element>
void first_backward(Stream& stream, const Element* dy, Element* dx, SequenceSize size, bool here) {
  check_first("first_backward", size, here);
  const dim3 grid = grid_of_samples(size, size.sequence * size.n);
  launch(stream, first_backward_kernel<Element>, grid, kThreads, dy, dx, size, here);
}

HIDUP_INSTANTIATE(prepend_forward);
HIDUP_INSTANTIATE(prepend_backward);
HIDUP_INSTANTIATE(first_forward);
HIDUP_INSTANTIATE(first_backward);

}  // namespace hidup::kernels
