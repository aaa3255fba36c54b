// Rows of a table, selected by token: y = scale * table[token - first].
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct EmbeddingSize {
  int64_t tokens;
  int64_t vocab;  // rows of the table that this rank has
  int64_t hidden;
  int64_t first = 0;  // the rows belong to tokens first .. first + vocab - 1
};

// tokens: i32 [tokens]; table: [vocab, hidden]; y: [tokens, hidden], zeros for rows of other ranks.
template <typename Element>
void embedding_forward(Stream& stream, const int32_t* tokens, const Element* table, Element* y,
                       EmbeddingSize size, float scale);

// dtable[token - first] (+)= scale * the sum of dy over the positions of that token, in order of
// the positions.
template <typename Element>
struct EmbeddingBackward {
  const int32_t* tokens;  // i32 [tokens]
  const Element* dy;      // [tokens, hidden]
  float* dtable;          // f32 [vocab, hidden]
  EmbeddingSize size;
  float scale;
  bool accumulate;  // otherwise overwrites dtable, with zeros for absent tokens
};
template <typename Element>
void embedding_backward(Stream& stream, const EmbeddingBackward<Element>& args);

}  // namespace hidup::kernels
