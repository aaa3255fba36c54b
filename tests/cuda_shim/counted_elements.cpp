// Kernels on single elements, and the optimizer.
#include "counted.h"
#include "kernels/activations.h"
#include "kernels/adam.h"
#include "kernels/add.h"
#include "kernels/add_parts.h"
#include "kernels/convert.h"
#include "kernels/copy_strided.h"
#include "kernels/dropout.h"
#include "kernels/norm.h"
#include "kernels/swiglu.h"

namespace hidup::kernels::testing {
namespace {

// Counts maps of n elements, which 16-byte vectors divide or do not.
template <typename Element>
void count_maps(CountedTable& table, int64_t n) {
  const auto x = ones<Element>(n);
  const auto b = ones<Element>(n);
  const auto c = ones<Element>(n);
  auto y = ones<Element>(n);
  auto z = ones<Element>(n);
  const auto add = [&](const std::string& function, int64_t read, int64_t written,
                       const std::function<void(Stream&)>& launch) {
    table.add({function, operands_of<Element>(fmt::format("{}", n)), read * n * kBytes<Element>,
               written * n * kBytes<Element>, launch});
  };
  add("add_forward", 2, 1,
      [&](Stream& stream) { add_forward<Element>(stream, x.data(), b.data(), y.data(), n); });
  add("relu_forward", 1, 1,
      [&](Stream& stream) { relu_forward<Element>(stream, x.data(), y.data(), n); });
  add("relu_backward", 2, 1,
      [&](Stream& stream) { relu_backward<Element>(stream, x.data(), b.data(), y.data(), n); });
  add("gelu_forward", 1, 1,
      [&](Stream& stream) { gelu_forward<Element>(stream, x.data(), y.data(), n); });
  add("gelu_backward", 2, 1,
      [&](Stream& stream) { gelu_backward<Element>(stream, x.data(), b.data(), y.data(), n); });
  add("silu_forward", 1, 1,
      [&](Stream& stream) { silu_forward<Element>(stream, x.data(), y.data(), n); });
  add("silu_backward", 2, 1,
      [&](Stream& stream) { silu_backward<Element>(stream, x.data(), b.data(), y.data(), n); });
  add("swiglu_forward", 2, 1,
      [&](Stream& stream) { swiglu_forward<Element>(stream, x.data(), b.data(), y.data(), n); });
  add("swiglu_backward", 3, 2, [&](Stream& stream) {
    swiglu_backward<Element>(stream, {x.data(), b.data(), c.data(), y.data(), z.data(), n});
  });
}

template <typename Element>
void count_dropout(CountedTable& table, int64_t rows, int64_t n) {
  const auto x = ones<Element>(rows * n);
  auto y = ones<Element>(rows * n);
  const OnDevice<StepState> state(StepState{.step = 1});
  const int64_t bytes = rows * n * kBytes<Element>;
  for (const bool whole : {true, false}) {
    const Region region = box({rows, whole ? n : 2 * n}, {0, 0}, {rows, n});
    table.add({"dropout",
               operands_of<Element>(fmt::format("{} x {}{}", rows, n, whole ? "" : " of columns")),
               bytes, bytes,
               [&](Stream& stream) {
                 dropout<Element>(stream, x.data(), y.data(), {region, 0.1F, 7, state.get()});
               },
               whole ? "" : "four neighbours a thread, one at a time"});
  }
}

void count_convert(CountedTable& table, int64_t n) {
  auto wide = ones<float>(n);
  auto narrow = ones<BFloat16>(n);
  table.add({"convert", fmt::format("f32 to bf16 {}", n), 4 * n, 2 * n, [&](Stream& stream) {
               convert<float, BFloat16>(stream, wide.data(), narrow.data(), n);
             }});
  table.add({"convert", fmt::format("bf16 to f32 {}", n), 2 * n, 4 * n, [&](Stream& stream) {
               convert<BFloat16, float>(stream, narrow.data(), wide.data(), n);
             }});
}

// Counts a sum over four ranks.
void count_add_parts(CountedTable& table, int64_t n) {
  constexpr int64_t kOthers = 3;
  const auto parts = ones<BFloat16>(kOthers * n);
  auto sum = ones<float>(n);
  table.add({"add_parts", fmt::format("{} of bf16 {}", kOthers, n), (2 * kOthers + 4) * n, 4 * n,
             [&](Stream& stream) { add_parts(stream, parts.data(), kOthers, sum.data(), n); },
             n % 4 == 0 ? "" : "parts begin within sectors, and are read one element at a time"});
}

// Counts copies of parts of a matrix with `rows` rows.
template <typename Element>
void count_copies(CountedTable& table, int64_t rows, int64_t n) {
  const auto from = ones<Element>(rows * n);
  auto to = ones<Element>(rows * n);
  const auto add = [&](const std::string& what, int64_t part, int64_t from_row, int64_t from_column,
                       const std::string& reason) {
    StridedCopy copy;
    copy.element = kBytes<Element>;
    copy.dims = 2;
    copy.extent[0] = rows;
    copy.extent[1] = part;
    copy.from_stride[0] = from_row;
    copy.from_stride[1] = from_column;
    copy.to_stride[0] = part;
    copy.to_stride[1] = 1;
    const int64_t bytes = rows * part * kBytes<Element>;
    table.add({"copy_strided", operands_of<Element>(fmt::format("{} {} x {}", what, rows, part)),
               bytes, bytes,
               [&](Stream& stream) { copy_strided(stream, from.data(), to.data(), copy); },
               reason});
  };
  add("whole", n, n, 1, "");
  add("half of each row", n / 2, n, 1, reason_of_rows(n * kBytes<Element>));
  if (rows == n) {
    add("transposed", n, 1, n, "neighbours lie in different rows");
  }
}

// Counts Adam, for 16-bit parameters with their masters.
template <typename Element>
void count_adam(CountedTable& table, int64_t n) {
  constexpr bool kRounds = !std::is_same_v<Element, float>;
  const auto gradient = ones<float>(n);
  auto p = ones<float>(n);
  auto m = ones<float>(n);
  auto v = ones<float>(n);
  auto rounded = ones<Element>(n);
  const auto scale = ones<float>(1);
  const OnDevice<StepState> state(StepState{.step = 1, .learning_rate = 0.1F});
  const auto part = [&](int64_t first, int64_t count) {
    return AdamPart<Element>{p.data() + first,
                             gradient.data() + first,
                             m.data() + first,
                             v.data() + first,
                             count,
                             first == 0,
                             kRounds ? rounded.data() + first : nullptr};
  };
  const int64_t first = n / 64 * 16;
  const std::vector<AdamPart<Element>> parts = {part(0, first), part(first, n - first)};
  const int64_t written = 12 * n + (kRounds ? kBytes<Element> * n : 0);
  table.add({"adam_update", operands_of<Element>(fmt::format("{} in 2 parts", n)), 16 * n, written,
             [&](Stream& stream) {
               adam_update<Element>(stream, parts, {0.9F, 0.99F, 1e-8F, 0.1F, true}, state.get(),
                                    scale.data());
             }});
}

void count_update(CountedTable& table, int64_t n) {
  count_adam<float>(table, n);
  count_adam<BFloat16>(table, n);
  const auto gradient = ones<float>(n);
  auto sum = ones<float>(1);
  auto norm = ones<float>(1);
  auto scale = ones<float>(1);
  OnDevice<StepState> state(StepState{.step = 1, .learning_rate = 0.1F});
  table.add({"squared_norm", fmt::format("f32 {}", n), 4 * n, 4,
             [&](Stream& stream) { squared_norm(stream, gradient.data(), n, sum.data(), false); }});
  table.add({"clip_scale", fmt::format("f32 of {}", n), 4 + kBytes<StepState>, 8,
             [&](Stream& stream) {
               clip_scale(stream, sum.data(), 1.0F, norm.data(), scale.data(), state.get());
             },
             "one thread, a sector for each number"});
}

}  // namespace

void count_elements(CountedTable& table) {
  for (const int64_t n : {1 << 18, 100003}) {
    count_maps<float>(table, n);
    count_maps<BFloat16>(table, n);
    count_convert(table, n);
    count_add_parts(table, n);
    count_update(table, n);
  }
  count_dropout<float>(table, 256, 1024);
  count_dropout<BFloat16>(table, 256, 1024);
  count_copies<float>(table, 512, 512);
  count_copies<BFloat16>(table, 512, 512);
  count_copies<float>(table, 511, 1030);
  count_copies<BFloat16>(table, 511, 1030);
}

}  // namespace hidup::kernels::testing
