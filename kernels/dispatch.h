// Dispatch of tokens to the buffers of their experts, and combination of the experts' results, by
// sorted indices (routing, see route.h) instead of products with one-hot matrices.
//
// Both handle the experts first_expert .. first_expert + experts - 1 and the tokens of the given
// routing; they skip entries of other experts and dropped ones. They write zeros to slots of
// `buffer` tensors that no given entry names.
//
// Buffers are [experts, batch, capacity, width]: an expert's rows are one matrix, and no part of
// them cuts inside a sequence. With counts a buffer is packed: it has no unused rows, and the rows
// of expert e and sequence b follow those of the pairs (expert, sequence) before it, so it is
// [rows, width]. Rows behind the last used one keep what they hold.
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
  int64_t capacity;  // of the routing entries, and of a buffer that is not packed
  int64_t width;     // elements of a token
  // i32 [experts, batch]: rows in use of a packed buffer; null for other buffers.
  const int32_t* counts = nullptr;
  int64_t rows = 0;  // a packed buffer has room for so many at least
  // The slots of an expert and sequence that the buffer has: so many from `first_slot` on.
  int64_t first_slot = 0;
  int64_t slots = INT64_MAX;
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
