// Launches that depend on sequence positions: embeddings, positions, class tokens, attention.
#include "kernels/attention.h"
#include "kernels/class_token.h"
#include "kernels/embedding.h"
#include "kernels/positions.h"
#include "kernels/rotary.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

kernels::EmbeddingSize embedding_size(const Operands& at, const Region& table) {
  return {elements(at.in_shape(0)), table.extent[0], table.extent[1], table.start[0]};
}

template <typename Element>
Launch embedding(const Operands& at) {
  return [tokens = at.in_integers(0), table = at.in_as<Element>(1), y = at.out_as<Element>(0),
          size = embedding_size(at, at.in_region(1)),
          scale = static_cast<float>(at.attributes<EmbeddingAttributes>().scale)](Stream& stream) {
    kernels::embedding_forward<Element>(stream, tokens, table, y, size, scale);
  };
}

template <typename Element>
Launch embedding_backward(const Operands& at) {
  const kernels::EmbeddingBackward<Element> args{
      .tokens = at.in_integers(0),
      .dy = at.in_as<Element>(1),
      .dtable = at.out(0),
      .size = embedding_size(at, at.out_region(0)),
      .scale = static_cast<float>(at.attributes<EmbeddingAttributes>().scale),
      .accumulate = at.accumulate()};
  return [args](Stream& stream) { kernels::embedding_backward(stream, args); };
}

template <typename Element>
Launch positions(const Operands& at) {
  return [x = at.in_as<Element>(0), y = at.out_as<Element>(0), region = at.in_region(0)](
             Stream& stream) { kernels::positions_forward(stream, x, y, region); };
}

kernels::RotarySize rotary_size(const Operands& at) {
  const Region x = at.in_region(0);
  int64_t heads = 1;
  for (int d = 2; d < x.dims - 1; ++d) {
    heads *= x.extent[d];
  }
  return {.batch = x.extent[0],
          .sequence = x.extent[1],
          .heads = heads,
          .head = x.extent[x.dims - 1],
          .first = x.start[1],
          .theta = at.attributes<RotaryAttributes>().theta};
}

// y = kernel(x), which rotates forwards or backwards.
template <typename Element,
          void (*kKernel)(Stream&, const Element*, Element*, const kernels::RotarySize&)>
Launch rotary(const Operands& at) {
  return [x = at.in_as<Element>(0), y = at.out_as<Element>(0),
          size = rotary_size(at)](Stream& stream) { kKernel(stream, x, y, size); };
}

kernels::SequenceSize sequence_size(const Shape& x) {
  return {x[0], x[1], x[2]};
}
// Returns true if the rank's part of the sequences has their first position.
bool has_first(const Region& x) {
  return x.start[1] == 0 && x.extent[1] > 0;
}

template <typename Element>
Launch prepend(const Operands& at) {
  return [x = at.in_as<Element>(0), token = at.in_as<Element>(1), y = at.out_as<Element>(0),
          size = sequence_size(at.in_shape(0))](Stream& stream) {
    kernels::prepend_forward(stream, x, token, y, size);
  };
}

template <typename Element>
Launch prepend_backward(const Operands& at) {
  const kernels::PrependBackward<Element> args{.dy = at.in_as<Element>(0),
                                               .dx = at.out_as<Element>(0),
                                               .dtoken = at.out(1),
                                               .size = sequence_size(at.out_shape(0)),
                                               .accumulate = at.accumulate()};
  return [args](Stream& stream) { kernels::prepend_backward(stream, args); };
}

template <typename Element>
Launch first(const Operands& at) {
  return [x = at.in_as<Element>(0), y = at.out_as<Element>(0), size = sequence_size(at.in_shape(0)),
          here = has_first(at.in_region(0))](Stream& stream) {
    kernels::first_forward(stream, x, y, size, here);
  };
}

template <typename Element>
Launch first_backward(const Operands& at) {
  return [dy = at.in_as<Element>(0), dx = at.out_as<Element>(0),
          size = sequence_size(at.out_shape(0)), here = has_first(at.out_region(0))](
             Stream& stream) { kernels::first_backward(stream, dy, dx, size, here); };
}

bool is_causal(const Operands& at) {
  return at.attributes<AttentionAttributes>().causal;
}

// Returns true if queries, keys and values are one tensor [batch, sequence, 3, heads, head]. If
// they are three tensors, the queries are [batch, sequence, kv_heads, group, head].
bool is_packed(const Operands& at) {
  const Opcode opcode = at.instruction().opcode;
  return opcode == Opcode::attention || opcode == Opcode::attention_backward;
}

kernels::AttentionSize attention_size(const Operands& at) {
  const Shape first = at.in_shape(0);
  const int64_t heads = is_packed(at) ? first[3] : first[2] * first[3];
  return {.batch = first[0],
          .sequence = first[1],
          .heads = heads,
          .kv_heads = is_packed(at) ? heads : first[2],
          .head = first[4]};
}

template <typename Element>
kernels::AttentionTensors<const Element> attention_inputs(const Operands& at) {
  const kernels::AttentionSize size = attention_size(at);
  const Element* first = at.in_as<Element>(0);
  return is_packed(at) ? kernels::packed(first, size)
                       : kernels::apart<const Element>(first, at.in_as<Element>(1),
                                                       at.in_as<Element>(2), size);
}

template <typename Element>
Launch attention(const Operands& at) {
  const kernels::AttentionForward<Element> args{.in = attention_inputs<Element>(at),
                                                .y = at.out_as<Element>(0),
                                                .lse = at.out(1),
                                                .size = attention_size(at),
                                                .causal = is_causal(at)};
  return [args](Stream& stream) { kernels::attention_forward(stream, args); };
}

template <typename Element>
Launch attention_backward(const Operands& at) {
  const kernels::AttentionSize size = attention_size(at);
  Element* first = at.out_as<Element>(0);
  const size_t rest = is_packed(at) ? 1 : 3;  // operands after queries, keys and values
  const kernels::AttentionBackward<Element> args{
      .in = attention_inputs<Element>(at),
      .y = at.in_as<Element>(rest),
      .lse = at.in(rest + 1),
      .dy = at.in_as<Element>(rest + 2),
      .grad = is_packed(at)
                  ? kernels::packed(first, size)
                  : kernels::apart(first, at.out_as<Element>(1), at.out_as<Element>(2), size),
      .size = size,
      .causal = is_causal(at)};
  return [args](Stream& stream) { kernels::attention_backward(stream, args); };
}

}  // namespace

template <typename T>
std::vector<LaunchRow> sequence_launches() {
  return {
      {Opcode::embedding, embedding<T>},
      {Opcode::embedding_backward, embedding_backward<T>},
      {Opcode::positions, positions<T>},
      {Opcode::rotary, rotary<T, kernels::rotary_forward<T>>},
      {Opcode::rotary_backward, rotary<T, kernels::rotary_backward<T>>},
      {Opcode::prepend, prepend<T>},
      {Opcode::prepend_backward, prepend_backward<T>},
      {Opcode::first, first<T>},
      {Opcode::first_backward, first_backward<T>},
      {Opcode::attention, attention<T>},
      {Opcode::attention_backward, attention_backward<T>},
      {Opcode::grouped_attention, attention<T>},
      {Opcode::grouped_attention_backward, attention_backward<T>},
  };
}
template std::vector<LaunchRow> sequence_launches<float>();
template std::vector<LaunchRow> sequence_launches<BFloat16>();
template std::vector<LaunchRow> sequence_launches<Float16>();

}  // namespace hidup
