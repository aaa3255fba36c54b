// Rotary positions (Su et al., "RoFormer", 2021), in the order of Llama's public code: the channels
// j and j + head/2 of a head are a pair, rotated at the position p by
//   a(p, j) = p theta^(-2j/head)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct RotarySize {
  int64_t batch;
  int64_t sequence;  // positions of this rank
  int64_t heads;
  int64_t head;   // elements of one head, even, >= 2
  int64_t first;  // this rank's first position
  double theta;   // > 0
};

// With c = cos a(p, j) and s = sin a(p, j), for every j < head/2:
//   y_j = x_j c - x_(j+head/2) s,  y_(j+head/2) = x_(j+head/2) c + x_j s
// x, y: [batch, sequence, heads, head]; y may be x. The stream stores the angles of the last call.
template <typename Element>
void rotary_forward(Stream& stream, const Element* x, Element* y, const RotarySize& size);

// dx is dy rotated back; both are like x; dx may be dy.
template <typename Element>
void rotary_backward(Stream& stream, const Element* dy, Element* dx, const RotarySize& size);

}  // namespace hidup::kernels
