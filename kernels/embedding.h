// Rows of a table, chosen by token: y = scale * table[token - first].
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct EmbeddingSize {
  int64_t tokens;
  int64_t vocab;  // rows of the table that are here:
  int64_t hidden;
  int64_t first = 0;  // those of the tokens first .. first + vocab - 1
};

// tokens: i32 [tokens]; table: [vocab, hidden]; y: [tokens, hidden], zeros where the
// token's row is not here.
template <typename Element>
void embedding_forward(Stream& stream, const int32_t* tokens, const Element* table, Element* y,
                       EmbeddingSize size, float scale);

// dtable[token - first] (+)= scale * the sum of dy over the positions of that token, in the order
// of the positions. tokens: i32 [tokens]; dy: [tokens, hidden]; dtable: f32 [vocab, hidden],
// overwritten (with zeros where a token does not occur) unless `accumulate`.
template <typename Element>
struct EmbeddingBackward {
  const int32_t* tokens;
  const Element* dy;
  float* dtable;
  EmbeddingSize size;
  float scale;
  bool accumulate;
};
template <typename Element>
void embedding_backward(Stream& stream, const EmbeddingBackward<Element>& args);

}  // namespace hidup::kernels
