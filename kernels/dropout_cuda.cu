#include "core/random.h"
#include "kernels/cuda_elements.h"
#include "kernels/dropout.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Where the elements lie: `runs` of `length` that are contiguous in the global tensor too, each
// touched by at most `quads` groups of four that share a Philox call.
struct Runs {
  int64_t runs;
  int64_t length;
  int64_t quads;
};

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(const Element* x, Element* y, DropoutMask mask, Runs runs, uint32_t threshold) {
  const RandomStream random{mask.key, mask.state->step};
  const float scale = 1.0F / (1.0F - mask.p);
  for (int64_t i = thread_of_grid(); i < runs.runs * runs.quads; i += threads_of_grid()) {
    const int64_t local = i / runs.quads * runs.length;
    const int64_t global = mask.region.global_index(local);
    const int64_t quad = global / 4 + i % runs.quads;
    const Philox4 words = random.block(static_cast<uint64_t>(quad));
    for (int w = 0; w < 4; ++w) {
      const int64_t at = 4 * quad + w - global;  // in the run
      if (at >= 0 && at < runs.length) {
        const float value = widen(x[local + at]) * scale;
        y[local + at] = narrow<Element>(words.word[w] >= threshold ? value : 0.0F);
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
  const int64_t length = mask.region.contiguous_run();
  const Runs runs = {elements / length, length, ceil_div(length + 3, 4)};
  launch(stream, dropout_kernel<Element>, blocks_for(runs.runs * runs.quads, kThreads), kThreads, x,
         y, mask, runs, dropout_threshold(mask.p));
}

#define INSTANTIATE(Element) template decltype(dropout<Element>) dropout<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
