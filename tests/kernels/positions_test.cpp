#include "kernels/positions.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

double encoding(int64_t position, int64_t j, int64_t hidden) {
  const double i = static_cast<double>(j / 2);
  const double angle =
      static_cast<double>(position) / std::pow(10000.0, 2.0 * i / static_cast<double>(hidden));
  return j % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

Doubles expected(const Floats& x, const Region& region) {
  Doubles y = to_doubles(x);
  for (int64_t i = 0; i < region.elements(); ++i) {
    const int64_t index = region.global_index(i);
    const int64_t hidden = region.global[2];
    y[static_cast<size_t>(i)] +=
        encoding(index / hidden % region.global[1], index % hidden, hidden);
  }
  return y;
}

// One stream runs all cases, so that a cached table of one case would spoil another.
TEST(Positions, FollowTheFormulaInEveryPart) {
  const std::vector<Region> parts = {
      box({2, 5, 6}, {0, 0, 0}, {2, 5, 6}),        // the whole tensor
      box({4, 8, 6}, {2, 3, 0}, {2, 5, 6}),        // the same extents, other positions
      box({4, 8, 12}, {2, 3, 0}, {2, 5, 6}),       // other frequencies
      box({4, 8, 12}, {2, 3, 5}, {2, 5, 6}),       // other channels, an odd first one
      box({4, 8, 12}, {0, 3, 6}, {2, 5, 6}),       // an even first one
      box({4, 8, 13}, {0, 3, 12}, {3, 5, 1}),      // one channel
      box({3, 3004, 7}, {0, 3000, 0}, {3, 4, 7}),  //
      box({1, 3009, 7}, {0, 3000, 3}, {1, 9, 3}),  //
      box({2, 5, 6}, {2, 0, 0}, {0, 5, 6}),        // nothing
      box({2, 5, 6}, {0, 5, 0}, {2, 0, 6}),        //
      box({2, 5, 6}, {0, 0, 6}, {2, 5, 0}),        //
      box({2, 5, 6}, {0, 0, 0}, {2, 5, 6}),        // the whole tensor again
  };
  std::vector<Floats> inputs;
  std::vector<std::unique_ptr<Output>> outputs;
  for (const Region& region : parts) {
    inputs.push_back(random_floats("x", region.elements()));
    outputs.push_back(std::make_unique<Output>(region.elements()));
  }
  run([&](Stream& stream) {
    for (size_t i = 0; i < parts.size(); ++i) {
      positions_forward(stream, inputs[i].data(), outputs[i]->data(), parts[i]);
    }
  });
  for (size_t i = 0; i < parts.size(); ++i) {
    expect_close(*outputs[i], expected(inputs[i], parts[i]), 4.0 * kEpsilon,
                 "y of part " + std::to_string(i));
  }
}

TEST(Positions, InPlaceAndWithAnyTeam) {
  const Region region = box({3, 9, 11}, {0, 2, 1}, {3, 7, 10});
  const auto x = random_floats("x", region.elements());
  expect_same_bits([&](int threads) {
    Output y(x);
    run([&](Stream& stream) { positions_forward(stream, y.data(), y.data(), region); }, threads);
    expect_close(y, expected(x, region), 4.0 * kEpsilon, "y");
    return y.values();
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
