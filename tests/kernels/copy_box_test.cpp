#include "kernels/copy_box.h"

#include <bit>

#include "core/half.h"
#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

Box make_box(const std::vector<int64_t>& extent, const std::vector<int64_t>& from_stride,
             const std::vector<int64_t>& to_stride, int64_t from_offset = 0,
             int64_t to_offset = 0) {
  Box box;
  box.dims = static_cast<int>(extent.size());
  for (size_t d = 0; d < extent.size(); ++d) {
    box.extent[d] = extent[d];
    box.from_stride[d] = from_stride[d];
    box.to_stride[d] = to_stride[d];
  }
  box.from_offset = from_offset;
  box.to_offset = to_offset;
  return box;
}

// visit(from, to) for the two places of every element, by the definition.
template <typename Visit>
void for_each_element(const Box& box, Visit visit) {
  int64_t elements = 1;
  for (int d = 0; d < box.dims; ++d) {
    elements *= box.extent[d];
  }
  for (int64_t element = 0; element < elements; ++element) {
    int64_t from = box.from_offset;
    int64_t to = box.to_offset;
    int64_t rest = element;
    for (int d = box.dims - 1; d >= 0; --d) {
      from += rest % box.extent[d] * box.from_stride[d];
      to += rest % box.extent[d] * box.to_stride[d];
      rest /= box.extent[d];
    }
    visit(static_cast<size_t>(from), static_cast<size_t>(to));
  }
}

// first, first + 1, ...
Ints numbers_from(int32_t first, size_t n) {
  Ints values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = first + static_cast<int32_t>(i);
  }
  return values;
}

const Box kBoxes[] = {
    make_box({}, {}, {}, 3, 5),                                    // one element
    make_box({7}, {1}, {1}, 2, 3),                                 //
    make_box({40}, {1}, {1}, 2, 3),                                // longer than a short run
    make_box({7}, {3}, {2}, 1, 0),                                 // with gaps
    make_box({4, 6}, {6, 1}, {6, 1}),                              // all one run
    make_box({4, 6}, {10, 1}, {6, 1}, 2),                          // columns are cut out
    make_box({4, 20}, {20, 1}, {31, 1}, 0, 9),                     // and put in
    make_box({5, 4}, {1, 5}, {4, 1}),                              // a transposition
    make_box({3, 1, 4, 5}, {20, 999, 5, 1}, {40, 777, 5, 1}),      // an extent of 1
    make_box({2, 3, 4}, {12, 4, 1}, {4, 8, 1}),                    // dimensions swap
    make_box({2, 3, 2, 3}, {40, 12, 4, 1}, {60, 20, 7, 2}, 1, 1),  //
    make_box({3, 4}, {0, 1}, {4, 1}),                              // repeated rows
    make_box({2, 3, 2, 2, 3, 2}, {72, 24, 12, 6, 2, 1}, {1, 2, 6, 12, 24, 72}),  // kMaxDims
    make_box({0}, {1}, {1}),                                                     // nothing
    make_box({3, 0, 4}, {12, 4, 1}, {12, 4, 1}),                                 //
    make_box({70000}, {1}, {1}, 1, 2),                     // what a team does: one run
    make_box({3, 30000}, {30001, 1}, {30000, 1}, 1, 2),    // long runs
    make_box({500, 3, 67}, {402, 67, 1}, {67, 33500, 1}),  // many short ones
    make_box({300, 300}, {1, 300}, {300, 1}),              //
};

TEST(CopyBox, MovesTheElementsOfTheBoxAndNoOthers) {
  for (const Box& box : kBoxes) {
    SCOPED_TRACE(::testing::Message() << box.dims << " dimensions, " << box.extent[0]);
    size_t from_end = 0;
    size_t to_end = 0;
    for_each_element(box, [&](size_t from, size_t to) {
      from_end = std::max(from_end, from + 1);
      to_end = std::max(to_end, to + 1);
    });
    const auto source = numbers_from(0, from_end);
    auto expected = numbers_from(-1000000, to_end);
    for (const int threads : {1, 2, 3}) {
      IntOutput target(numbers_from(-1000000, to_end));
      run([&](Stream& s) { copy_box(s, source.data(), target.data(), box); }, threads);
      for_each_element(box, [&](size_t from, size_t to) { expected[to] = source[from]; });
      ASSERT_EQ(target.values(), expected) << threads << " threads";
    }
  }
}

TEST(CopyBox, KeepsTheBitsOfFloats) {
  const Floats source = {1.5F, kNan, -0.0F, 1e-42F, 7.0F, 8.0F};
  for (const int64_t stride : {1, 2}) {
    Output target(6);
    run([&](Stream& s) {
      copy_box(s, source.data(), target.data(), make_box({3}, {stride}, {1}));
    });
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(target[i]),
                std::bit_cast<uint32_t>(source[i * static_cast<size_t>(stride)]));
      EXPECT_TRUE(std::isnan(target[i + 3]));
    }
  }
}

// Elements of 2 bytes: a middle column and an odd part of a row.
TEST(CopyBox, CopiesElementsOfTwoBytes) {
  DeviceArray<BFloat16> source;
  for (int i = 0; i < 35; ++i) {
    source.push_back(BFloat16(static_cast<float>(i)));
  }
  GuardedOutput<BFloat16> target(9);
  Box box = make_box({3, 3}, {7, 1}, {3, 1});
  box.element = 2;
  box.from_offset = 8;
  run([&](Stream& s) { copy_box(s, source.data(), target.data(), box); });
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(static_cast<size_t>(target[i]), 8 + i / 3 * 7 + i % 3);
  }
}

TEST(FillZero, FillsAllAndNoMore) {
  for (const int64_t n : {0, 1, 1037, 100003}) {
    Output y(n);
    run([&](Stream& s) { fill_zero(s, y.data(), n * 4); }, 2);
    EXPECT_EQ(y.values(), Floats(static_cast<size_t>(n), 0.0F));
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
