// The backward pass of layer normalization (layer_norm.h), for CUDA kernels. RMS norm is not
// centered: it has no mean and no beta, and average(g) counts as 0.
#pragma once

#include "kernels/cuda_columns.h"
#include "kernels/cuda_rows.h"
#include "kernels/layer_norm.h"

namespace hidup::kernels {

// Statistics of a row for dx and dgamma: h = (x - mean) * rstd.
template <bool kCentered>
struct RowFactors {
  float mean;
  float rstd;

  template <typename Element>
  __device__ RowFactors(const LayerNormBackward<Element>& args, int64_t row)
      : mean(kCentered ? args.mean[row] : 0.0F), rstd(args.rstd[row]) {}
  template <typename Element>
  __device__ float h(Element x) const {
    return (kCentered ? widen(x) - mean : widen(x)) * rstd;
  }
};

// Writes dx of row `row` of args.
template <bool kCentered, typename Row, typename Element>
__device__ void input_gradient(const Row& x, const Row& dy, const RowFactors<kCentered>& factors,
                               const LayerNormBackward<Element>& args, int64_t row) {
  const int64_t n = args.n;
  using V = typename Row::V;
  float sum_g = 0.0F;
  float sum_gh = 0.0F;
  x.each(
      [&](int, int64_t j, const V& in, const V& gradient) {
        const V scale = load_vector<Element, Row::kCount>(args.gamma + j);
        for (int e = 0; e < Row::kCount; ++e) {
          const float g = widen(gradient.element[e]) * widen(scale.element[e]);
          sum_g += g;
          sum_gh += g * factors.h(in.element[e]);
        }
      },
      dy);
  const float average_g =
      kCentered ? group_reduce<Row::kGroup>(sum_g, Sum{}) / static_cast<float>(n) : 0.0F;
  const float average_gh = group_reduce<Row::kGroup>(sum_gh, Sum{}) / static_cast<float>(n);
  x.each(
      [&](int, int64_t j, const V& in, const V& gradient) {
        const V scale = load_vector<Element, Row::kCount>(args.gamma + j);
        const V more = args.added != nullptr
                           ? load_vector<Element, Row::kCount>(args.added + row * n + j)
                           : V{};
        float out[Row::kCount];
        for (int e = 0; e < Row::kCount; ++e) {
          const float g = widen(gradient.element[e]) * widen(scale.element[e]);
          const float rest = kCentered ? g - average_g : g;
          out[e] = factors.rstd * (rest - factors.h(in.element[e]) * average_gh) +
                   widen(more.element[e]);
        }
        store_vector(args.dx + row * n + j, narrow<Element>(out));
      },
      dy);
}

// Sums, column by column, over the rows that a group of threads holds in turn.
template <typename Row>
class ColumnSums {
 public:
  __device__ float& at(int i, int e) { return sum_[i][e]; }

  // Adds up the sums of all groups of the block in its first group.
  __device__ void add_groups() {
    if constexpr (Row::kGroup == kWarp) {
      constexpr int kWarps = kThreads / kWarp;
      __shared__ float sums[kWarps / 2][kHeldVectors * Row::kCount][kWarp];
      const int warp = static_cast<int>(threadIdx.x) / kWarp;
      const int lane = static_cast<int>(threadIdx.x) % kWarp;
      for (int half = kWarps / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp >= half && warp < 2 * half) {
          each([&](int at, float& sum) { sums[warp - half][at][lane] = sum; });
        }
        __syncthreads();
        if (warp < half) {
          each([&](int at, float& sum) { sum += sums[warp][at][lane]; });
        }
      }
    }
  }

  // to[j] = the sum of column j. The first group calls it.
  __device__ void write(float* to, int64_t n) const {
    HIDUP_UNROLL for (int i = 0; i < kHeldVectors; ++i) {
      const int64_t j = Row::kCount * (threadIdx.x + int64_t{i} * Row::kGroup);
      for (int e = 0; j < n && e < Row::kCount; e += 4) {
        store_vector(to + j + e,
                     Vector<float, 4>{sum_[i][e], sum_[i][e + 1], sum_[i][e + 2], sum_[i][e + 3]});
      }
    }
  }

 private:
  template <typename Use>
  __device__ void each(Use use) {
    HIDUP_UNROLL for (int i = 0; i < kHeldVectors; ++i) {
      for (int e = 0; e < Row::kCount; ++e) {
        use(i * Row::kCount + e, sum_[i][e]);
      }
    }
  }

  float sum_[kHeldVectors][Row::kCount] = {};
};

// Writes dx, partials[block, 0, j] and, if centered, partials[block, 1, j]: the shares of a block
// of rows in dgamma and dbeta.
template <typename Row, bool kCentered>
__global__ void __launch_bounds__(kThreads, 2)
    held_backward_kernel(LayerNormBackward<typename Row::Element> args, float* partials,
                         RowBlocks blocks) {
  using V = typename Row::V;
  constexpr int kGroups = kThreads / Row::kGroup;
  const int64_t n = args.n;
  const int group = static_cast<int>(threadIdx.x) / Row::kGroup;
  ColumnSums<Row> dgamma;
  ColumnSums<Row> dbeta;
  for (int64_t row = blocks.begin(blockIdx.x) + group; row < blocks.end(blockIdx.x);
       row += kGroups) {
    const Row x(args.x + row * n, n);
    const Row dy(args.dy + row * n, n);
    const RowFactors<kCentered> factors(args, row);
    x.each(
        [&](int i, int64_t, const V& in, const V& gradient) {
          for (int e = 0; e < Row::kCount; ++e) {
            dgamma.at(i, e) += widen(gradient.element[e]) * factors.h(in.element[e]);
            dbeta.at(i, e) += widen(gradient.element[e]);
          }
        },
        dy);
    input_gradient(x, dy, factors, args, row);
  }
  constexpr int kSums = kCentered ? 2 : 1;
  float* to = partials + blockIdx.x * kSums * n;
  dgamma.add_groups();
  if (group == 0) {
    dgamma.write(to, n);
  }
  if constexpr (kCentered) {
    dbeta.add_groups();
    if (group == 0) {
      dbeta.write(to + n, n);
    }
  }
}

// Writes only these partial sums.
template <typename Element, bool kCentered>
__global__ void __launch_bounds__(kThreads)
    partials_kernel(LayerNormBackward<Element> args, float* partials, RowBlocks blocks) {
  constexpr int kSums = kCentered ? 2 : 1;
  const int64_t n = args.n;
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float dgamma = 0.0F;
  float dbeta = 0.0F;
  for (int64_t row = first; j < n && row < blocks.end(blockIdx.y); row += kSumRows) {
    const RowFactors<kCentered> factors(args, row);
    const float gradient = widen(args.dy[row * n + j]);
    dgamma += gradient * factors.h(args.x[row * n + j]);
    dbeta += gradient;
  }
  dgamma = sum_of_column(dgamma);
  dbeta = kCentered ? sum_of_column(dbeta) : 0.0F;
  if (j < n && threadIdx.x < kSumColumns) {
    float* to = partials + blockIdx.y * kSums * n + j;
    to[0] = dgamma;
    if constexpr (kCentered) {
      to[n] = dbeta;
    }
  }
}

template <typename Row, bool kCentered>
__global__ void __launch_bounds__(kThreads)
    input_gradient_kernel(LayerNormBackward<typename Row::Element> args) {
  const int64_t row = thread_of_grid() / Row::kGroup;
  const int64_t at = row * args.n;
  if (row < args.rows) {  // otherwise the whole group has no row
    input_gradient(Row(args.x + at, args.n), Row(args.dy + at, args.n),
                   RowFactors<kCentered>(args, row), args, row);
  }
}

// Runs the whole backward pass. If rows are not held, dgamma and dbeta come first: dx may be dy.
template <bool kCentered, typename Element>
void norm_backward(Stream& stream, const LayerNormBackward<Element>& args) {
  const int64_t n = args.n;
  const int64_t sums = kCentered ? 2 * n : n;
  const bool aligned = aligned16(args.x, args.gamma, args.dy, args.added, args.dx);
  with_row_class<Element>(n, aligned, [&](auto row) {
    using Row = typename decltype(row)::type;
    // A block sums many held rows: one wave of blocks fills the largest GPUs.
    const RowBlocks blocks = Row::kHeld ? RowBlocks(args.rows, 256, 32) : RowBlocks(args.rows);
    auto* partials = static_cast<float*>(
        cuda_stream(stream).scratch(blocks.count * sums * static_cast<int64_t>(sizeof(float))));
    if constexpr (Row::kHeld) {
      launch(stream, held_backward_kernel<Row, kCentered>, grid_of(blocks.count), kThreads, args,
             partials, blocks);
    } else {
      const dim3 grid = grid_of(ceil_div(n, kSumColumns), blocks.count);
      launch(stream, partials_kernel<Element, kCentered>, grid, kThreads, args, partials, blocks);
      launch(stream, input_gradient_kernel<Row, kCentered>, blocks_of_rows<Row>(args.rows),
             kThreads, args);
    }
    add_partials(stream, partials, blocks.count, n, args.dgamma, args.dbeta, args.accumulate);
  });
}

}  // namespace hidup::kernels
