#include "core/random.h"
#include "kernels/cuda_layer_norm.h"
#include "kernels/residual_norm.h"

namespace hidup::kernels {
namespace {

// sum = residual + dropout(branch) for this thread's elements of a row, four at a time, which share
// a Philox call. The row begins at number `global` of the tensor. Returns the elements' sum.
template <int kGroup, typename Element>
__device__ float add_dropped(const Element* branch, const Element* residual, Element* sum,
                             int64_t global, int64_t n, const RandomStream& random,
                             uint32_t threshold, float scale) {
  float total = 0.0F;
  const int64_t last = (global + n - 1) / 4;
  for (int64_t quad = global / 4 + threadIdx.x % kGroup; quad <= last; quad += kGroup) {
    const Philox4 words = random.block(static_cast<uint64_t>(quad));
    for (int w = 0; w < 4; ++w) {
      const int64_t j = 4 * quad + w - global;
      if (j >= 0 && j < n) {
        const float kept = words.word[w] >= threshold ? widen(branch[j]) * scale : 0.0F;
        const Element added = narrow<Element>(widen(residual[j]) + kept);
        sum[j] = added;
        total += widen(added);
      }
    }
  }
  return total;
}

template <int kGroup, typename Element>
__device__ float add(const Element* branch, const Element* residual, Element* sum, int64_t n) {
  float total = 0.0F;
  for (int64_t j = threadIdx.x % kGroup; j < n; j += kGroup) {
    const Element added = narrow<Element>(widen(residual[j]) + widen(branch[j]));
    sum[j] = added;
    total += widen(added);
  }
  return total;
}

// kGroup threads do a row.
template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads)
    residual_norm_kernel(ResidualNorm<Element> args, uint32_t threshold) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t n = args.n;
  if (row >= args.rows) {
    return;  // the whole group
  }
  const int64_t at = row * n;
  const DropoutMask& mask = args.dropout;
  const Element* branch = args.branch + at;
  const Element* residual = args.residual + at;
  Element* sum = args.sum + at;
  const float total = mask.p > 0.0F
                          ? add_dropped<kGroup>(branch, residual, sum, mask.region.global_index(at),
                                                n, RandomStream{mask.key, mask.state->step},
                                                threshold, 1.0F / (1.0F - mask.p))
                          : add<kGroup>(branch, residual, sum, n);
  // What the group wrote is read by other threads of it.
  if constexpr (kGroup == kWarp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
  if (args.beta != nullptr) {
    normalize<kGroup>(sum, total, args.gamma, args.beta, args.y + at, args.mean + row,
                      args.rstd + row, n, args.eps);
  } else {
    normalize_square<kGroup>(sum, args.gamma, args.y + at, args.rstd + row, n, args.eps);
  }
}

}  // namespace

template <typename Element>
void residual_norm(Stream& stream, const ResidualNorm<Element>& args) {
  check_normalized_rows("residual_norm", args.rows, args.n);
  check_mask_of_rows("residual_norm", args.dropout, args.rows, args.n);
  launch_rows(stream, residual_norm_kernel<Element, kWarp>, residual_norm_kernel<Element, kThreads>,
              args.rows, args.n, args, dropout_threshold(args.dropout.p));
}

#define INSTANTIATE(Element) template decltype(residual_norm<Element>) residual_norm<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
