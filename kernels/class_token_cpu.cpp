#include "kernels/class_token.h"

#include <algorithm>

#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void prepend_forward(Stream& stream, const Element* x, const Element* token, Element* y,
                     SequenceSize size) {
  check_prepended("prepend", size);
  stream.enqueue([=] {
    const int64_t sample = size.sequence * size.n;
    for_each(size.batch, [&](int64_t b) {
      Element* out = std::copy_n(token, size.n, y + b * (sample + size.n));
      std::copy_n(x + b * sample, sample, out);
    });
  });
}

template <typename Element>
void prepend_backward(Stream& stream, const PrependBackward<Element>& args) {
  check_prepended("prepend_backward", args.size);
  stream.enqueue([=] {
    const int64_t n = args.size.n;
    const int64_t sample = args.size.sequence * n;
    for_each(args.size.batch, [&](int64_t b) {
      std::copy_n(args.dy + b * (sample + n) + n, sample, args.dx + b * sample);
    });
    // A task owns columns, for the whole batch.
    constexpr int64_t kColumns = 128;
#pragma omp parallel for schedule(static)
    for (int64_t begin = 0; begin < n; begin += kColumns) {
      const int64_t end = std::min(n, begin + kColumns);
      float* const sum = args.dtoken;
      if (!args.accumulate) {
        std::fill(sum + begin, sum + end, 0.0F);
      }
      for (int64_t b = 0; b < args.size.batch; ++b) {
        const Element* gradient = args.dy + b * (sample + n);
#pragma omp simd
        for (int64_t j = begin; j < end; ++j) {
          sum[j] += gradient[j];
        }
      }
    }
  });
}

template <typename Element>
void first_forward(Stream& stream, const Element* x, Element* y, SequenceSize size, bool here) {
  check_first("first", size, here);
  stream.enqueue([=] {
    if (!here) {
      std::fill_n(y, size.batch * size.n, Element(0.0F));
      return;
    }
    for_each(size.batch, [&](int64_t b) {
      std::copy_n(x + b * size.sequence * size.n, size.n, y + b * size.n);
    });
  });
}

template <typename Element>
void first_backward(Stream& stream, const Element* dy, Element* dx, SequenceSize size, bool here) {
  check_first("first_backward", size, here);
  stream.enqueue([=] {
    const int64_t sample = size.sequence * size.n;
    const int64_t filled = here ? size.n : 0;
    for_each(size.batch, [&](int64_t b) {
      Element* rest = std::copy_n(dy + b * size.n, filled, dx + b * sample);
      std::fill_n(rest, sample - filled, Element(0.0F));
    });
  });
}

HIDUP_INSTANTIATE(prepend_forward);
HIDUP_INSTANTIATE(prepend_backward);
HIDUP_INSTANTIATE(first_forward);
HIDUP_INSTANTIATE(first_backward);

}  // namespace hidup::kernels
