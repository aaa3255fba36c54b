#include "in_place_cases.h"

#include <gtest/gtest.h>

#include "case_data.h"

namespace hidup {
namespace {

constexpr float kUntouched = -77.0F;

// Returns small integers, whose sums are exact.
float small_value(int rank, int64_t i) {
  return static_cast<float>(rank + 1 + i % 100);
}

int64_t start_of(const Counts& counts, int rank) {
  return sum_of(Counts(counts.begin(), counts.begin() + rank));
}

void gather_in_place(Communicator& world, OwnStream& stream, const Counts& counts,
                     CollectiveAlgorithm algorithm) {
  const int64_t start = start_of(counts, world.rank());
  std::vector<float> values(static_cast<size_t>(sum_of(counts)) + 1, kUntouched);
  std::vector<float> wanted = values;
  int64_t at = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    for (int64_t i = 0; i < counts[static_cast<size_t>(rank)]; ++i, ++at) {
      wanted[static_cast<size_t>(at)] = small_value(rank, i);
      if (rank == world.rank()) {
        values[static_cast<size_t>(at)] = small_value(rank, i);
      }
    }
  }
  Array<float> data(stream, values);
  world.all_gather(*stream, data.data() + start, data.data(), counts, DType::f32, algorithm,
                   "data");
  expect_equal(data.values(), wanted);
}

void scatter_in_place(Communicator& world, OwnStream& stream, const Counts& counts,
                      CollectiveAlgorithm algorithm) {
  const int64_t start = start_of(counts, world.rank());
  const int64_t mine = counts[static_cast<size_t>(world.rank())];
  std::vector<float> values;
  for (int64_t i = 0; i < sum_of(counts); ++i) {
    values.push_back(small_value(world.rank(), i));
  }
  values.push_back(kUntouched);
  Array<float> data(stream, values);
  world.reduce_scatter(*stream, data.data(), data.data() + start, counts, DType::f32, algorithm,
                       "data");
  std::vector<float> sums = data.values();
  for (int64_t i = start; i < start + mine; ++i) {
    float wanted = 0.0F;
    for (int rank = 0; rank < world.size(); ++rank) {
      wanted += small_value(rank, i);
    }
    ASSERT_EQ(sums[static_cast<size_t>(i)], wanted) << "element " << i;
  }
  EXPECT_EQ(sums.back(), kUntouched);
}

}  // namespace

void device_gather_and_scatter_in_place(Communicator& world) {
  OwnStream stream;
  using enum CollectiveAlgorithm;
  const std::vector<Counts> patterns = count_patterns(world.size());
  for (const CollectiveAlgorithm algorithm : {automatic, ring, halving, windows}) {
    // The automatic choice depends on sizes and needs all patterns, an algorithm only some.
    for (size_t p = 0; p < patterns.size(); p += algorithm == automatic ? 1 : 3) {
      const Counts& counts = patterns[p];
      SCOPED_TRACE(std::string(name_of(algorithm)) + " of " + std::to_string(sum_of(counts)));
      gather_in_place(world, stream, counts, algorithm);
      scatter_in_place(world, stream, counts, algorithm);
    }
  }
}

}  // namespace hidup
