#include "kernels/copy_strided.h"

#include <bit>

#include "core/half.h"
#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

StridedCopy strided_copy(const std::vector<int64_t>& extent,
                         const std::vector<int64_t>& from_stride,
                         const std::vector<int64_t>& to_stride, int64_t from_offset = 0,
                         int64_t to_offset = 0) {
  StridedCopy copy;
  copy.dims = static_cast<int>(extent.size());
  for (size_t d = 0; d < extent.size(); ++d) {
    copy.extent[d] = extent[d];
    copy.from_stride[d] = from_stride[d];
    copy.to_stride[d] = to_stride[d];
  }
  copy.from_offset = from_offset;
  copy.to_offset = to_offset;
  return copy;
}

// Calls visit(from, to) with both places of every element, by the definition.
template <typename Visit>
void for_each_element(const StridedCopy& copy, Visit visit) {
  int64_t elements = 1;
  for (int d = 0; d < copy.dims; ++d) {
    elements *= copy.extent[d];
  }
  for (int64_t element = 0; element < elements; ++element) {
    int64_t from = copy.from_offset;
    int64_t to = copy.to_offset;
    int64_t rest = element;
    for (int d = copy.dims - 1; d >= 0; --d) {
      from += rest % copy.extent[d] * copy.from_stride[d];
      to += rest % copy.extent[d] * copy.to_stride[d];
      rest /= copy.extent[d];
    }
    visit(static_cast<size_t>(from), static_cast<size_t>(to));
  }
}

// Returns first, first + 1, ...
Ints numbers_from(int32_t first, size_t n) {
  Ints values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = first + static_cast<int32_t>(i);
  }
  return values;
}

const StridedCopy kCopies[] = {
    strided_copy({}, {}, {}, 3, 5),                                    // one element
    strided_copy({7}, {1}, {1}, 2, 3),                                 //
    strided_copy({40}, {1}, {1}, 2, 3),                                // longer than a short run
    strided_copy({7}, {3}, {2}, 1, 0),                                 // with gaps
    strided_copy({4, 6}, {6, 1}, {6, 1}),                              // one contiguous run
    strided_copy({4, 6}, {10, 1}, {6, 1}, 2),                          // columns are cut out
    strided_copy({4, 20}, {20, 1}, {31, 1}, 0, 9),                     // columns are inserted
    strided_copy({5, 4}, {1, 5}, {4, 1}),                              // a transposition
    strided_copy({3, 1, 4, 5}, {20, 999, 5, 1}, {40, 777, 5, 1}),      // an extent of 1
    strided_copy({2, 3, 4}, {12, 4, 1}, {4, 8, 1}),                    // dimensions swap
    strided_copy({2, 3, 2, 3}, {40, 12, 4, 1}, {60, 20, 7, 2}, 1, 1),  //
    strided_copy({3, 4}, {0, 1}, {4, 1}),                              // repeated rows
    strided_copy({2, 3, 2, 2, 3, 2}, {72, 24, 12, 6, 2, 1}, {1, 2, 6, 12, 24, 72}),  // kMaxDims
    strided_copy({0}, {1}, {1}),                                                     // nothing
    strided_copy({3, 0, 4}, {12, 4, 1}, {12, 4, 1}),                                 //
    strided_copy({70000}, {1}, {1}, 1, 2),                     // one run for a team of threads
    strided_copy({3, 30000}, {30001, 1}, {30000, 1}, 1, 2),    // long runs
    strided_copy({500, 3, 67}, {402, 67, 1}, {67, 33500, 1}),  // many short runs
    strided_copy({300, 300}, {1, 300}, {300, 1}),              //
};

TEST(CopyStrided, MovesTheElementsOfTheBoxAndNoOthers) {
  for (const StridedCopy& copy : kCopies) {
    SCOPED_TRACE(::testing::Message() << copy.dims << " dimensions, " << copy.extent[0]);
    size_t from_end = 0;
    size_t to_end = 0;
    for_each_element(copy, [&](size_t from, size_t to) {
      from_end = std::max(from_end, from + 1);
      to_end = std::max(to_end, to + 1);
    });
    const auto source = numbers_from(0, from_end);
    auto expected = numbers_from(-1000000, to_end);
    for (const int threads : {1, 2, 3}) {
      IntOutput target(numbers_from(-1000000, to_end));
      run([&](Stream& s) { copy_strided(s, source.data(), target.data(), copy); }, threads);
      for_each_element(copy, [&](size_t from, size_t to) { expected[to] = source[from]; });
      ASSERT_EQ(target.values(), expected) << threads << " threads";
    }
  }
}

TEST(CopyStrided, KeepsTheBitsOfFloats) {
  const Floats source = {1.5F, kNan, -0.0F, 1e-42F, 7.0F, 8.0F};
  for (const int64_t stride : {1, 2}) {
    Output target(6);
    run([&](Stream& s) {
      copy_strided(s, source.data(), target.data(), strided_copy({3}, {stride}, {1}));
    });
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(target[i]),
                std::bit_cast<uint32_t>(source[i * static_cast<size_t>(stride)]));
      EXPECT_TRUE(std::isnan(target[i + 3]));
    }
  }
}

// Copies a middle column and an odd part of a row.
TEST(CopyStrided, CopiesElementsOfTwoBytes) {
  DeviceArray<BFloat16> source;
  for (int i = 0; i < 35; ++i) {
    source.push_back(BFloat16(static_cast<float>(i)));
  }
  GuardedOutput<BFloat16> target(9);
  StridedCopy copy = strided_copy({3, 3}, {7, 1}, {3, 1});
  copy.element = 2;
  copy.from_offset = 8;
  run([&](Stream& s) { copy_strided(s, source.data(), target.data(), copy); });
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
