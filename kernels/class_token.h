// A class token before the positions of every sequence, and its result at the end of a model.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct SequenceSize {
  int64_t batch;
  int64_t sequence;
  int64_t n;  // width of a position
};

// y[b, 0, :] = token; y[b, 1 + s, :] = x[b, s, :]. x: [batch, sequence, n]; token: [n];
// y: [batch, sequence + 1, n].
template <typename Element>
void prepend_forward(Stream& stream, const Element* x, const Element* token, Element* y,
                     SequenceSize size);

// dx[b, s, :] = dy[b, 1 + s, :]; dtoken (+)= the sum of dy[b, 0, :] over b, in the order of b.
template <typename Element>
struct PrependBackward {
  const Element* dy;  // [batch, sequence + 1, n]
  Element* dx;        // [batch, sequence, n]
  float* dtoken;      // f32 [n]
  SequenceSize size;  // of dx
  bool accumulate;    // adds to dtoken; dx is overwritten
};
template <typename Element>
void prepend_backward(Stream& stream, const PrependBackward<Element>& args);

// y[b, :] = x[b, 0, :], or zeros unless `here`: this rank may have other positions of the
// sequences. x: [batch, sequence, n], with at least one position if `here`; y: [batch, n].
template <typename Element>
void first_forward(Stream& stream, const Element* x, Element* y, SequenceSize size, bool here);

// dx[b, 0, :] = dy[b, :] if `here`; zeros elsewhere.
template <typename Element>
void first_backward(Stream& stream, const Element* dy, Element* dx, SequenceSize size, bool here);

}  // namespace hidup::kernels
