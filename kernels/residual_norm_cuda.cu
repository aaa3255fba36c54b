#include "kernels/residual_norm.h"

#include "core/random.h"
#include "kernels/cuda_layer_norm.h"

namespace hidup::kernels {
namespace {

// The random numbers of dropout, its threshold, and the scale of the elements that stay.
struct Dropping {
  RandomStream random;
  uint32_t threshold;
  float scale;

  __device__ float operator()(float branch, uint32_t word) const {
    return word >= threshold ? branch * scale : 0.0F;
  }
};

// sum = residual + dropout(branch) for a row that begins at number `global` of the tensor. `global`
// and n are multiples of 4: four neighbours share a Philox call. Leaves the sum in `branch`.
template <typename Row, typename Element>
__device__ void add_held(Row& branch, const Row& residual, Element* sum, int64_t global, bool drops,
                         const Dropping& dropping) {
  using V = typename Row::V;
  branch.each(
      [&](int, int64_t j, V& values, const V& others) {
        for (int e = 0; e < Row::kCount; e += 4) {
          float added[4];
          for (int w = 0; w < 4; ++w) {
            added[w] = widen(values.element[e + w]);
          }
          if (drops) {
            const Philox4 words = dropping.random.block(static_cast<uint64_t>(global + j + e) / 4);
            for (int w = 0; w < 4; ++w) {
              added[w] = dropping(added[w], words.word[w]);
            }
          }
          for (int w = 0; w < 4; ++w) {
            values.element[e + w] = narrow<Element>(added[w] + widen(others.element[e + w]));
          }
        }
        store_vector(sum + j, values);
      },
      residual);
}

// Does the same for any row, whose quads may extend beyond it.
template <int kGroup, typename Element>
__device__ void add_dropped(const Element* branch, const Element* residual, Element* sum,
                            int64_t global, int64_t n, const Dropping& dropping) {
  const int64_t last = (global + n - 1) / 4;
  for (int64_t quad = global / 4 + threadIdx.x % kGroup; quad <= last; quad += kGroup) {
    const Philox4 words = dropping.random.block(static_cast<uint64_t>(quad));
    for (int w = 0; w < 4; ++w) {
      const int64_t j = 4 * quad + w - global;
      if (j >= 0 && j < n) {
        sum[j] = narrow<Element>(widen(residual[j]) + dropping(widen(branch[j]), words.word[w]));
      }
    }
  }
}

template <int kGroup, typename Element>
__device__ void add(const Element* branch, const Element* residual, Element* sum, int64_t n) {
  for (int64_t j = threadIdx.x % kGroup; j < n; j += kGroup) {
    sum[j] = narrow<Element>(widen(residual[j]) + widen(branch[j]));
  }
}

template <typename Row, typename Element>
__device__ void norm_of_sum(const Row& sum, const ResidualNorm<Element>& args, int64_t row) {
  Element* y = args.y + row * args.n;
  if (args.beta != nullptr) {
    normalize<true>(sum, args.gamma, args.beta, y, args.mean + row, args.rstd + row, args.n,
                    args.eps);
  } else {
    normalize<false>(sum, args.gamma, args.beta, y, args.mean, args.rstd + row, args.n, args.eps);
  }
}

template <typename Row>
__global__ void __launch_bounds__(kThreads)
    residual_norm_kernel(ResidualNorm<typename Row::Element> args, uint32_t threshold) {
  const int64_t row = thread_of_grid() / Row::kGroup;
  const int64_t n = args.n;
  if (row >= args.rows) {
    return;  // true for the whole group
  }
  const int64_t at = row * n;
  const DropoutMask& mask = args.dropout;
  const bool drops = mask.p > 0.0F;
  const int64_t global = drops ? mask.region.global_index(at) : 0;
  const Dropping dropping{
      {mask.key, drops ? mask.state->step : 0}, threshold, 1.0F / (1.0F - mask.p)};
  if constexpr (Row::kHeld) {
    Row sum(args.branch + at, n);
    add_held(sum, Row(args.residual + at, n), args.sum + at, global, drops, dropping);
    norm_of_sum(sum, args, row);
  } else {
    if (drops) {
      add_dropped<Row::kGroup>(args.branch + at, args.residual + at, args.sum + at, global, n,
                               dropping);
    } else {
      add<Row::kGroup>(args.branch + at, args.residual + at, args.sum + at, n);
    }
    // Other threads of the group read the elements that this thread wrote.
    if constexpr (Row::kGroup == kWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
    norm_of_sum(Row(args.sum + at, n), args, row);
  }
}

}  // namespace

template <typename Element>
void residual_norm(Stream& stream, const ResidualNorm<Element>& args) {
  check_normalized_rows("residual_norm", args.rows, args.n);
  check_mask_of_rows("residual_norm", args.dropout, args.rows, args.n);
  const bool aligned =
      aligned16(args.branch, args.residual, args.gamma, args.beta, args.sum, args.y);
  with_row_class<Element>(args.n, aligned, [&](auto row) {
    using Row = typename decltype(row)::type;
    launch(stream, residual_norm_kernel<Row>, blocks_of_rows<Row>(args.rows), kThreads, args,
           dropout_threshold(args.dropout.p));
  });
}

HIDUP_INSTANTIATE(residual_norm);

}  // namespace hidup::kernels
