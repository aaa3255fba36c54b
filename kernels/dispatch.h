// Dispatch of tokens to the buffers of their experts, and combination of the experts' results, by
// sorted indices (routing, see route.h) instead of products with one-hot matrices.
//
// Both handle the experts first_expert .. first_expert + experts - 1 and the tokens of the given
// routing; they skip entries of other experts and dropped ones. They write zeros to slots of
// `buffer` tensors that no given entry names.
//
// Buffers are [experts, batch, capacity, width]: an expert's
// rows are one matrix, and no part of them cuts inside a sequence.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct DispatchSize {
  int64_t batch;
  int64_t sequence;
  int64_t choices;
  int64_t experts;
  int64_t first_expert;
  int64_t capacity;
  int64_t width;  // elements of a token
};

// buffer[e, b, slot, :] = x[b, s, :] for every entry (e, slot) of routing[b, s, :].
// x: [batch, sequence, width]; routing: i32 [batch, sequence, choices];
// buffer: [experts, batch, capacity, width].
template <typename Element>
void dispatch_forward(Stream& stream, const Element* x, const int32_t* routing, Element* buffer,
                      DispatchSize size);

// dx[b, s, :] = the sum of dbuffer[e, b, slot, :] over the entries of routing[b, s, :].
template <typename Element>
void dispatch_backward(Stream& stream, const Element* dbuffer, const int32_t* routing, Element* dx,
                       DispatchSize size);

// y[b, s, :] = the sum of weights[b, s, c] * buffer[e, b, slot, :] over the entries of
// routing[b, s, :]. weights: f32 [batch, sequence, choices]; y: [batch, sequence, width].
template <typename Element>
void combine_forward(Stream& stream, const Element* buffer, const int32_t* routing,
                     const float* weights, Element* y, DispatchSize size);

// dbuffer[e, b, slot, :] = weights[b, s, c] * dy[b, s, :]; dweights[b, s, c] = the inner product of
// buffer[e, b, slot, :] and dy[b, s, :], f32 and zero for skipped entries. Both are overwritten.
template <typename Element>
struct CombineBackward {
  const Element* buffer;   // [experts, batch, capacity, width]
  const int32_t* routing;  // i32 [batch, sequence, choices]
  const float* weights;    // f32 [batch, sequence, choices]
  const Element* dy;       // [batch, sequence, width]
  Element* dbuffer;        // like buffer
  float* dweights;         // like weights
  DispatchSize size;
};
template <typename Element>
void combine_backward(Stream& stream, const CombineBackward<Element>& args);

}  // namespace hidup::kernels
