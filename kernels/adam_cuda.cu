#include "kernels/adam.h"
#include "kernels/cuda_math.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// What all elements share in a step.
struct Factors {
  float step_size;
  float inverse_sqrt_correction2;
  float kept;  // of a parameter that decays, by a decoupled decay
  float scale;
};

// As many parts as the arguments of a kernel have room for (4 KB). They are cut into pieces of
// kPiece elements, which the blocks take in turn.
constexpr int kMostParts = 64;
constexpr int64_t kPiece = 4 * kThreads;
struct Parts {
  AdamPart part[kMostParts];
  int64_t first_piece[kMostParts];
  int count = 0;
  int64_t pieces = 0;
};

__device__ Factors factors_of(const AdamOptions& options, const StepState& state, float scale) {
  const auto step = static_cast<double>(state.step - state.skipped);
  const auto lr = static_cast<double>(state.learning_rate);
  const double correction1 = 1.0 - pow(static_cast<double>(options.beta1), step);
  const double correction2 = 1.0 - pow(static_cast<double>(options.beta2), step);
  const double shrink = options.decoupled ? lr * static_cast<double>(options.weight_decay) : 0.0;
  return {static_cast<float>(lr / correction1), static_cast<float>(1.0 / sqrt(correction2)),
          static_cast<float>(1.0 - shrink), scale};
}

__device__ void update_piece(const AdamPart& part, int64_t begin, const AdamOptions& options,
                             const Factors& factors) {
  const float added_decay = part.decays && !options.decoupled ? options.weight_decay : 0.0F;
  const float kept = part.decays ? factors.kept : 1.0F;
  const int64_t end = smaller(part.n, begin + kPiece);
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float p = part.parameter[i];
    const float g = part.gradient[i] * factors.scale + added_decay * p;
    const float new_m = part.m[i] + (1.0F - options.beta1) * (g - part.m[i]);
    const float new_v = options.beta2 * part.v[i] + (1.0F - options.beta2) * g * g;
    const float denominator = sqrtf(new_v) * factors.inverse_sqrt_correction2 + options.epsilon;
    part.m[i] = new_m;
    part.v[i] = new_v;
    part.parameter[i] = p * kept - factors.step_size * (new_m / denominator);
  }
}

__global__ void __launch_bounds__(kThreads)
    adam_kernel(Parts parts, AdamOptions options, const StepState* state,
                const float* gradient_scale) {
  __shared__ Factors shared;
  if (threadIdx.x == 0) {
    shared = factors_of(options, *state, *gradient_scale);
  }
  __syncthreads();
  const Factors factors = shared;
  if (!isfinite(factors.scale)) {
    return;
  }
  int p = 0;
  for (int64_t piece = blockIdx.x; piece < parts.pieces; piece += gridDim.x) {
    while (p + 1 < parts.count && parts.first_piece[p + 1] <= piece) {
      ++p;
    }
    update_piece(parts.part[p], (piece - parts.first_piece[p]) * kPiece, options, factors);
  }
}

}  // namespace

void adam_update(Stream& stream, std::span<const AdamPart> parts, const AdamOptions& options,
                 const StepState* state, const float* gradient_scale) {
  Parts some;
  for (size_t i = 0; i < parts.size(); ++i) {
    check_extents("adam", {parts[i].n});
    some.part[some.count] = parts[i];
    some.first_piece[some.count] = some.pieces;
    some.pieces += ceil_div(parts[i].n, kPiece);
    if (++some.count == kMostParts || i + 1 == parts.size()) {
      launch(stream, adam_kernel, blocks_for(some.pieces, 1), kThreads, some, options, state,
             gradient_scale);
      some.count = 0;
      some.pieces = 0;
    }
  }
}

}  // namespace hidup::kernels
