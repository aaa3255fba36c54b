// Attention: f32 by plain loads, 16 bits by tiles of tensor cores.
#include "counted.h"
#include "kernels/attention.h"

namespace hidup::kernels::testing {
namespace {

template <typename Element>
void count_attention_of(CountedTable& table, const AttentionSize& size, bool causal) {
  const int64_t n = size.batch * size.sequence * size.heads * size.head;
  const int64_t shared = n / size.heads * size.kv_heads;
  auto q = ones<Element>(n);
  auto k = ones<Element>(shared);
  auto v = ones<Element>(shared);
  auto y = ones<Element>(n);
  auto dy = ones<Element>(n);
  auto dq = ones<Element>(n);
  auto dk = ones<Element>(shared);
  auto dv = ones<Element>(shared);
  auto lse = ones<float>(size.batch * size.heads * size.sequence);
  const auto lse_bytes = 4 * static_cast<int64_t>(lse.size());
  const int64_t matrix = n * kBytes<Element>;
  const int64_t kv = 2 * shared * kBytes<Element>;
  const std::string reason_of_writes =
      kBytes<Element> == 2 ? "; four lanes write 16 bytes of a row" : "";
  const auto add = [&](const std::string& function, int64_t read, int64_t written,
                       const std::function<void(Stream&)>& launch, const std::string& reason) {
    table.add({function,
               operands_of<Element>(fmt::format("{} x {} x {}/{} x {}{}", size.batch, size.sequence,
                                                size.heads, size.kv_heads, size.head,
                                                causal ? ", causal" : "")),
               read, written, launch, joined(reason, reason_of_rows(size.head * kBytes<Element>))});
  };
  const auto in = apart<const Element>(q.data(), k.data(), v.data(), size);
  const auto grad = apart<Element>(dq.data(), dk.data(), dv.data(), size);
  add(
      "attention_forward", matrix + kv, matrix + lse_bytes,
      [&](Stream& stream) {
        attention_forward<Element>(stream, {in, y.data(), lse.data(), size, causal});
      },
      "keys and values for every 64 queries, from L2" + reason_of_writes);
  add(
      "attention_backward", 3 * matrix + kv + lse_bytes, matrix + kv,
      [&](Stream& stream) {
        attention_backward<Element>(stream,
                                    {in, y.data(), lse.data(), dy.data(), grad, size, causal});
      },
      "two kernels, each of which reads the other side for every 64 rows, from L2" +
          reason_of_writes);
}

}  // namespace

void count_attention(CountedTable& table) {
  for (const AttentionSize& size : {AttentionSize{1, 256, 1, 1, 64}, {1, 150, 1, 1, 128}}) {
    count_attention_of<float>(table, size, true);
    count_attention_of<BFloat16>(table, size, true);
  }
  count_attention_of<float>(table, {1, 70, 2, 1, 64}, false);
  count_attention_of<BFloat16>(table, {1, 130, 2, 1, 64}, false);
  count_attention_of<BFloat16>(table, {1, 101, 1, 1, 35}, true);
}

}  // namespace hidup::kernels::testing
