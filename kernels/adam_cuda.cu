#include "kernels/adam.h"
#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Factors that all elements share in a step.
struct Factors {
  float step_size;
  float inverse_sqrt_correction2;
  float kept;  // of a decaying parameter, for decoupled decay
  float scale;
};

// As many parts as fit in a kernel's arguments (4 KB). They are cut into pieces of kPiece elements,
// which the blocks take in turn.
constexpr int kMostParts = 60;
constexpr int kCount = kPerVector<float>;
constexpr int64_t kPiece = kCount * kThreads;
template <typename Element>
struct Parts {
  AdamPart<Element> part[kMostParts];
  int64_t first_piece[kMostParts];
  bool vectors[kMostParts];  // vectors access all of the part
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

// Updates kSome neighbours.
template <int kSome, typename Element>
__device__ void update(const AdamPart<Element>& part, int64_t i, const AdamOptions& options,
                       const Factors& factors) {
  const float added_decay = part.decays && !options.decoupled ? options.weight_decay : 0.0F;
  const float kept = part.decays ? factors.kept : 1.0F;
  auto p = load_vector<float, kSome>(part.parameter + i);
  const auto gradient = load_vector<float, kSome>(part.gradient + i);
  auto m = load_vector<float, kSome>(part.m + i);
  auto v = load_vector<float, kSome>(part.v + i);
  for (int e = 0; e < kSome; ++e) {
    const float g = gradient.element[e] * factors.scale + added_decay * p.element[e];
    m.element[e] = m.element[e] + (1.0F - options.beta1) * (g - m.element[e]);
    v.element[e] = options.beta2 * v.element[e] + (1.0F - options.beta2) * g * g;
    const float denominator =
        sqrtf(v.element[e]) * factors.inverse_sqrt_correction2 + options.epsilon;
    p.element[e] = p.element[e] * kept - factors.step_size * (m.element[e] / denominator);
  }
  store_vector(part.m + i, m);
  store_vector(part.v + i, v);
  store_vector(part.parameter + i, p);
  if (part.rounded != nullptr) {
    store_vector(part.rounded + i, narrow<Element>(p.element));
  }
}

template <typename Element>
__device__ void update_piece(const AdamPart<Element>& part, int64_t begin, bool vectors,
                             const AdamOptions& options, const Factors& factors) {
  const int64_t end = smaller(part.n, begin + kPiece);
  const int64_t rest = vectors ? begin + (end - begin) / kCount * kCount : begin;
  const int64_t at = begin + kCount * static_cast<int64_t>(threadIdx.x);
  if (at < rest) {
    update<kCount>(part, at, options, factors);
  }
  for (int64_t i = rest + threadIdx.x; i < end; i += kThreads) {
    update<1>(part, i, options, factors);
  }
}

template <typename Element>
__device__ void round_piece(const AdamPart<Element>& part, int64_t begin) {
  const int64_t end = smaller(part.n, begin + kPiece);
  for (int64_t i = begin + threadIdx.x; part.rounded != nullptr && i < end; i += kThreads) {
    part.rounded[i] = narrow<Element>(part.parameter[i]);
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(Parts<Element> parts, AdamOptions options, const StepState* state,
                const float* gradient_scale) {
  __shared__ Factors shared;
  if (threadIdx.x == 0) {
    shared = factors_of(options, *state, *gradient_scale);
  }
  __syncthreads();
  const Factors factors = shared;
  const bool changes = isfinite(factors.scale);
  int p = 0;
  for (int64_t piece = blockIdx.x; piece < parts.pieces; piece += gridDim.x) {
    while (p + 1 < parts.count && parts.first_piece[p + 1] <= piece) {
      ++p;
    }
    const int64_t begin = (piece - parts.first_piece[p]) * kPiece;
    if (changes) {
      update_piece(parts.part[p], begin, parts.vectors[p], options, factors);
    } else {
      round_piece(parts.part[p], begin);
    }
  }
}

}  // namespace

template <typename Element>
void adam_update(Stream& stream, std::span<const AdamPart<Element>> parts,
                 const AdamOptions& options, const StepState* state, const float* gradient_scale) {
  Parts<Element> some;
  for (size_t i = 0; i < parts.size(); ++i) {
    const AdamPart<Element>& part = parts[i];
    check_extents("adam", {part.n});
    some.part[some.count] = part;
    some.first_piece[some.count] = some.pieces;
    some.vectors[some.count] =
        aligned16(part.parameter, part.gradient, part.m, part.v, part.rounded);
    some.pieces += ceil_div(part.n, kPiece);
    if (++some.count == kMostParts || i + 1 == parts.size()) {
      launch(stream, adam_kernel<Element>, blocks_for(some.pieces, 1), kThreads, some, options,
             state, gradient_scale);
      some.count = 0;
      some.pieces = 0;
    }
  }
}

HIDUP_INSTANTIATE(adam_update);

}  // namespace hidup::kernels
