// Kernels on the positions of sequences: embeddings and positions.
#include "counted.h"
#include "kernels/class_token.h"
#include "kernels/embedding.h"
#include "kernels/positions.h"
#include "kernels/rotary.h"

namespace hidup::kernels::testing {
namespace {

template <typename Element>
void count_embedding(CountedTable& table, EmbeddingSize size) {
  const Ints tokens = random_tokens("tokens", size.tokens, size.vocab);
  const auto rows = ones<Element>(size.vocab * size.hidden);
  auto y = ones<Element>(size.tokens * size.hidden);
  auto dtable = ones<float>(size.vocab * size.hidden);
  const int64_t matrix = size.tokens * size.hidden * kBytes<Element>;
  const std::string operands =
      operands_of<Element>(fmt::format("{} of {} x {}", size.tokens, size.vocab, size.hidden));
  table.add({"embedding_forward", operands, matrix + 4 * size.tokens, matrix,
             [&](Stream& stream) {
               embedding_forward<Element>(stream, tokens.data(), rows.data(), y.data(), size, 1.0F);
             },
             reason_of_rows(size.hidden * kBytes<Element>)});
  table.add({"embedding_backward", operands, matrix + 4 * size.tokens, 4 * size.vocab * size.hidden,
             [&](Stream& stream) {
               embedding_backward<Element>(
                   stream, {tokens.data(), y.data(), dtable.data(), size, 1.0F, false});
             },
             "the search for equal tokens reads those behind each one until it finds one"});
}

template <typename Element>
void count_positions(CountedTable& table, int64_t batch, int64_t sequence, int64_t heads,
                     int64_t head) {
  const int64_t n = heads * head;
  const auto x = ones<Element>(batch * (sequence + 1) * n);
  const auto token = ones<Element>(n);
  auto y = ones<Element>(batch * (sequence + 1) * n);
  auto dtoken = ones<float>(n);
  const int64_t row = n * kBytes<Element>;
  const int64_t matrix = batch * sequence * row;
  const auto add = [&](const std::string& function, int64_t read, int64_t written,
                       const std::function<void(Stream&)>& launch) {
    table.add({function, operands_of<Element>(fmt::format("{} x {} x {}", batch, sequence, n)),
               read, written, launch, reason_of_rows(row)});
  };
  const Region region = box({batch, sequence, n}, {0, 0, 0}, {batch, sequence, n});
  add("positions_forward", matrix, matrix,
      [&](Stream& stream) { positions_forward<Element>(stream, x.data(), y.data(), region); });
  const RotarySize rotary{batch, sequence, heads, head, 0, 10000.0};
  add("rotary_forward", matrix, matrix,
      [&](Stream& stream) { rotary_forward<Element>(stream, x.data(), y.data(), rotary); });
  add("rotary_backward", matrix, matrix,
      [&](Stream& stream) { rotary_backward<Element>(stream, x.data(), y.data(), rotary); });
  const SequenceSize size{batch, sequence, n};
  add("prepend_forward", matrix + row, matrix + batch * row, [&](Stream& stream) {
    prepend_forward<Element>(stream, x.data(), token.data(), y.data(), size);
  });
  add("prepend_backward", matrix + batch * row, matrix + 4 * n, [&](Stream& stream) {
    prepend_backward<Element>(stream, {x.data(), y.data(), dtoken.data(), size, false});
  });
  add("first_forward", batch * row, batch * row,
      [&](Stream& stream) { first_forward<Element>(stream, x.data(), y.data(), size, true); });
  add("first_backward", batch * row, matrix,
      [&](Stream& stream) { first_backward<Element>(stream, x.data(), y.data(), size, true); });
}

template <typename Element>
void count_tokens_of(CountedTable& table) {
  count_embedding<Element>(table, {512, 1000, 512});
  count_embedding<Element>(table, {333, 501, 203});
  count_positions<Element>(table, 4, 128, 8, 64);
  count_positions<Element>(table, 3, 65, 3, 34);
}

}  // namespace

void count_tokens(CountedTable& table) {
  count_tokens_of<float>(table);
  count_tokens_of<BFloat16>(table);
}

}  // namespace hidup::kernels::testing
