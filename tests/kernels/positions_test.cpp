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

struct Case {
  int64_t batch;
  int64_t sequence;
  int64_t hidden;
  int64_t first_position;
};

Doubles expected(const std::vector<float>& x, const Case& c) {
  Doubles y = to_doubles(x);
  for (int64_t i = 0; i < c.batch * c.sequence * c.hidden; ++i) {
    const int64_t s = i / c.hidden % c.sequence;
    y[static_cast<size_t>(i)] += encoding(c.first_position + s, i % c.hidden, c.hidden);
  }
  return y;
}

// One stream runs all cases, so that what it keeps from one serves no other.
TEST(Positions, FollowTheFormula) {
  const std::vector<Case> cases = {{2, 5, 6, 0},    {2, 5, 6, 3},    {3, 4, 7, 3},
                                   {1, 4, 7, 3000}, {1, 9, 7, 3000}, {0, 5, 6, 0},
                                   {2, 0, 6, 0},    {2, 5, 0, 0},    {2, 5, 6, 0}};
  std::vector<std::vector<float>> inputs;
  std::vector<std::unique_ptr<Output>> outputs;
  for (const Case& c : cases) {
    inputs.push_back(random_floats("x", c.batch * c.sequence * c.hidden));
    outputs.push_back(std::make_unique<Output>(c.batch * c.sequence * c.hidden));
  }
  run([&](Stream& stream) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      positions_forward(stream, inputs[i].data(), outputs[i]->data(), c.batch, c.sequence, c.hidden,
                        c.first_position);
    }
  });
  for (size_t i = 0; i < cases.size(); ++i) {
    expect_close(*outputs[i], expected(inputs[i], cases[i]), 4.0 * kEpsilon,
                 "y of case " + std::to_string(i));
  }
}

TEST(Positions, InPlaceAndWithAnyTeam) {
  const Case c = {3, 7, 10, 2};
  const auto x = random_floats("x", c.batch * c.sequence * c.hidden);
  expect_same_bits([&](int threads) {
    Output y(x);
    run(
        [&](Stream& stream) {
          positions_forward(stream, y.data(), y.data(), c.batch, c.sequence, c.hidden,
                            c.first_position);
        },
        threads);
    expect_close(y, expected(x, c), 4.0 * kEpsilon, "y");
    return y.values();
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
