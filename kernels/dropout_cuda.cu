#include "core/random.h"
#include "kernels/cuda_elements.h"
#include "kernels/dropout.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// The layout of the elements: `runs` of `length` that are contiguous in the global tensor, too.
// Each touches at most `quads` groups of four elements that share a Philox call.
struct Runs {
  int64_t runs;
  int64_t length;
  int64_t quads;
};

// The threshold below which elements are dropped, and the scale of the others.
struct Dropped {
  uint32_t threshold;
  float scale;

  explicit Dropped(float p) : threshold(dropout_threshold(p)), scale(1.0F / (1.0F - p)) {}
  template <typename Element>
  __device__ Element operator()(Element x, uint32_t word) const {
    return narrow<Element>(word >= threshold ? widen(x) * scale : 0.0F);
  }
};

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const Element* x, Element* y, DropoutMask mask, Runs runs, Dropped dropped) {
  const RandomStream random{mask.key, mask.state->step};
  for (int64_t i = thread_of_grid(); i < runs.runs * runs.quads; i += threads_of_grid()) {
    const int64_t local = i / runs.quads * runs.length;
    const int64_t global = mask.region.global_index(local);
    const int64_t quad = global / 4 + i % runs.quads;
    const Philox4 words = random.block(static_cast<uint64_t>(quad));
    for (int w = 0; w < 4; ++w) {
      const int64_t at = 4 * quad + w - global;  // index in the run
      if (at >= 0 && at < runs.length) {
        y[local + at] = dropped(x[local + at], words.word[w]);
      }
    }
  }
}

// Handles n elements that are contiguous in the global tensor, too, from group `first` of four on.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    whole_kernel(const Element* x, Element* y, uint64_t key, const StepState* state, int64_t first,
                 int64_t n, Dropped dropped) {
  const RandomStream random{key, state->step};
  for (int64_t quad = thread_of_grid(); 4 * quad < n; quad += threads_of_grid()) {
    const int64_t at = 4 * quad;
    const Philox4 words = random.block(static_cast<uint64_t>(first + quad));
    if (at + 4 <= n) {
      Vector<Element, 4> values = load_vector<Element, 4>(x + at);
      for (int w = 0; w < 4; ++w) {
        values.element[w] = dropped(values.element[w], words.word[w]);
      }
      store_vector(y + at, values);
    } else {
      for (int w = 0; at + w < n; ++w) {
        y[at + w] = dropped(x[at + w], words.word[w]);
      }
    }
  }
}

}  // namespace

template <typename Element>
void dropout(Stream& stream, const Element* x, Element* y, const DropoutMask& mask) {
  check_mask("dropout", mask);
  const int64_t elements = mask.region.elements();
  if (elements == 0) {
    return;
  }
  const Dropped dropped(mask.p);
  const int64_t length = mask.region.contiguous_run();
  const int64_t begin = mask.region.global_index(0);
  if (length == elements && begin % 4 == 0 && aligned16(x, y)) {
    launch(stream, whole_kernel<Element>, blocks_for(ceil_div(elements, 4), kThreads), kThreads, x,
           y, mask.key, mask.state, begin / 4, elements, dropped);
    return;
  }
  const Runs runs = {elements / length, length, ceil_div(length + 3, 4)};
  launch(stream, dropout_kernel<Element>, blocks_for(runs.runs * runs.quads, kThreads), kThreads, x,
         y, mask, runs, dropped);
}

HIDUP_INSTANTIATE(dropout);

}  // namespace hidup::kernels
