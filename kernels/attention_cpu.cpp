#include "kernels/attention.h"

#include <type_traits>
#include <vector>

#include "kernels/arithmetic.h"
#include "kernels/cpu_attention.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

using Head = AttentionHead;

// `size` elements of every position.
struct Strip {
  int64_t positions;
  int64_t size;

  int64_t elements() const { return positions * size; }
};
// Copies a strip to dense floats.
template <typename Element>
void gather(const Strip& strip, const Element* from, int64_t stride, float* to) {
  for (int64_t i = 0; i < strip.positions; ++i) {
    widen(from + i * stride, strip.size, to + i * strip.size);
  }
}
template <typename Element>
void scatter(const Strip& strip, const float* from, Element* to, int64_t stride) {
  for (int64_t i = 0; i < strip.positions; ++i) {
    narrow(from + i * strip.size, strip.size, to + i * stride);
  }
}
void zero(const Strip& strip, float* to, int64_t stride) {
  for (int64_t i = 0; i < strip.positions; ++i) {
    std::fill_n(to + i * stride, strip.size, 0.0F);
  }
}

// Returns the place of the head in tensors of its own; lse keeps its place.
Head alone(const Head& head) {
  Head dense({.batch = 1, .sequence = head.sequence, .heads = 1, .kv_heads = 1, .head = head.size},
             head.size, head.size, 0);
  dense.lse = head.lse;
  return dense;
}

// Returns the start of a group's keys and values; `index` counts the groups of all sequences.
int64_t start_of_group(const AttentionSize& size, int64_t kv_stride, int64_t index) {
  return index / size.kv_heads * size.sequence * kv_stride + index % size.kv_heads * size.head;
}

void forward(const AttentionForward<float>& args) {
  const AttentionSize& size = args.size;
  const int64_t blocks = ceil_div(size.sequence, kQueries);
  for_each(size.batch * size.heads * blocks, [&](int64_t task) {
    const Head at(size, args.in.q_stride, args.in.kv_stride, task / blocks);
    forward_block<float>(at, at, QueryBlock(at, task % blocks, args.causal),
                         {args.in, args.y, args.lse, args.causal});
  });
}

void backward(const AttentionBackward<float>& args) {
  const AttentionSize& size = args.size;
  const Strip strip{size.sequence, size.head};
  for_each(size.batch * size.kv_heads, [&](int64_t index) {
    const int64_t kv = start_of_group(size, args.in.kv_stride, index);
    zero(strip, args.grad.k + kv, args.in.kv_stride);
    zero(strip, args.grad.v + kv, args.in.kv_stride);
    const int64_t group = size.heads / size.kv_heads;
    for (int64_t head = index * group; head < (index + 1) * group; ++head) {
      const Head at(size, args.in.q_stride, args.in.kv_stride, head);
      backward_head<float>(at, at, {args.in, args.y, args.lse, args.dy, args.grad, args.causal});
    }
  });
}

// Handles other elements: compute(at, dense, y) writes the head's y as floats.
template <typename Element, typename Compute>
void forward_by_heads(const AttentionForward<Element>& args, const Compute& compute) {
  const AttentionSize& size = args.size;
  const Strip strip{size.sequence, size.head};
  for_each(size.batch * size.heads, [&](int64_t index) {
    thread_local std::vector<float> memory;
    const Head at(size, args.in.q_stride, args.in.kv_stride, index);
    float* const y = scratch(memory, strip.elements());
    compute(at, alone(at), y);
    scatter(strip, y, args.y + at.y, at.y_stride);
  });
}

// Likewise: compute(at, dense, grad) writes the head's dq, and adds its dk and dv.
template <typename Element, typename Compute>
void backward_by_heads(const AttentionBackward<Element>& args, const Compute& compute) {
  const AttentionSize& size = args.size;
  const Strip strip{size.sequence, size.head};
  const int64_t n = strip.elements();
  for_each(size.batch * size.kv_heads, [&](int64_t index) {
    thread_local std::vector<float> memory;
    float* const dq = scratch(memory, 3 * n);
    float* const dk = dq + n;
    float* const dv = dk + n;
    std::fill_n(dk, 2 * n, 0.0F);
    const int64_t group = size.heads / size.kv_heads;
    for (int64_t head = index * group; head < (index + 1) * group; ++head) {
      const Head at(size, args.in.q_stride, args.in.kv_stride, head);
      compute(at, alone(at), AttentionTensors<float>{dq, dk, dv, size.head, size.head});
      scatter(strip, dq, args.grad.q + at.q, at.q_stride);
    }
    const int64_t kv = start_of_group(size, args.in.kv_stride, index);
    scatter(strip, dk, args.grad.k + kv, args.in.kv_stride);
    scatter(strip, dv, args.grad.v + kv, args.in.kv_stride);
  });
}

// Computes from unconverted operands.
template <typename Element>
void forward_natively(const AttentionForward<Element>& args) {
  forward_by_heads(args, [&](const Head& at, const Head& dense, float* y) {
    forward_head<Element>(at, dense, {args.in, y, args.lse, args.causal});
  });
}
template <typename Element>
void backward_natively(const AttentionBackward<Element>& args) {
  backward_by_heads(args, [&](const Head& at, const Head& dense, AttentionTensors<float> grad) {
    backward_head<Element>(at, dense, {args.in, args.y, args.lse, args.dy, grad, args.causal});
  });
}

// Returns a head's q, k and v as floats.
template <typename Element>
AttentionTensors<const float> gather(const AttentionTensors<const Element>& in, const Head& at,
                                     float* to) {
  const Strip strip{at.sequence, at.size};
  float* const k = to + strip.elements();
  float* const v = k + strip.elements();
  gather(strip, in.q + at.q, at.q_stride, to);
  gather(strip, in.k + at.kv, at.kv_stride, k);
  gather(strip, in.v + at.kv, at.kv_stride, v);
  return {to, k, v, at.size, at.size};
}

template <typename Element>
void forward_as_floats(const AttentionForward<Element>& args) {
  forward_by_heads(args, [&](const Head& at, const Head& dense, float* y) {
    thread_local std::vector<float> memory;
    float* const floats = scratch(memory, 3 * at.sequence * at.size);
    forward_head<float>(dense, dense, {gather(args.in, at, floats), y, args.lse, args.causal});
  });
}
template <typename Element>
void backward_as_floats(const AttentionBackward<Element>& args) {
  backward_by_heads(args, [&](const Head& at, const Head& dense, AttentionTensors<float> grad) {
    thread_local std::vector<float> memory;
    const Strip strip{at.sequence, at.size};
    float* const y = scratch(memory, 5 * strip.elements());
    float* const dy = y + strip.elements();
    gather(strip, args.y + at.y, at.y_stride, y);
    gather(strip, args.dy + at.y, at.y_stride, dy);
    const AttentionTensors<const float> in = gather(args.in, at, dy + strip.elements());
    backward_head<float>(dense, dense, {in, y, args.lse, dy, grad, args.causal});
  });
}

template <typename Element>
void forward(const AttentionForward<Element>& args) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    if (bf16_is_native()) {
      return forward_natively(args);
    }
  }
  forward_as_floats(args);
}
template <typename Element>
void backward(const AttentionBackward<Element>& args) {
  if constexpr (std::is_same_v<Element, BFloat16>) {
    if (bf16_is_native()) {
      return backward_natively(args);
    }
  }
  backward_as_floats(args);
}

}  // namespace

template <typename Element>
void attention_forward(Stream& stream, const AttentionForward<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] { forward(args); });
}

template <typename Element>
void attention_backward(Stream& stream, const AttentionBackward<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] { backward(args); });
}

HIDUP_INSTANTIATE(attention_forward);
HIDUP_INSTANTIATE(attention_backward);

}  // namespace hidup::kernels
