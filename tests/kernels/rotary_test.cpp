#include "kernels/rotary.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

// Returns x turned by the angles times `sign`.
Doubles turned(const Doubles& x, const RotarySize& size, double sign) {
  const int64_t pairs = size.head / 2;
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t channel = at % size.head;
    const int64_t position = size.first + at / size.head / size.heads % size.sequence;
    const double frequency =
        std::pow(size.theta, -static_cast<double>(channel % pairs) / static_cast<double>(pairs));
    const double angle = sign * static_cast<double>(position) * frequency;
    const bool upper = channel >= pairs;
    const double partner = x[static_cast<size_t>(upper ? at - pairs : at + pairs)];
    y[i] = x[i] * std::cos(angle) + (upper ? partner : -partner) * std::sin(angle);
  }
  return y;
}

// One stream runs all cases, so that a cached table of one case would spoil another.
TEST(Rotary, TurnsPairsAndTurnsThemBack) {
  const std::vector<RotarySize> sizes = {
      {.batch = 2, .sequence = 5, .heads = 3, .head = 8, .first = 0, .theta = 10000.0},
      {.batch = 2, .sequence = 5, .heads = 3, .head = 8, .first = 3, .theta = 10000.0},
      {.batch = 2, .sequence = 5, .heads = 3, .head = 8, .first = 3, .theta = 50.0},
      {.batch = 1, .sequence = 7, .heads = 1, .head = 2, .first = 2000, .theta = 10000.0},
      {.batch = 1, .sequence = 67, .heads = 2, .head = 34, .first = 1, .theta = 500.0},
      {.batch = 0, .sequence = 5, .heads = 3, .head = 8, .first = 0, .theta = 10000.0},
      {.batch = 2, .sequence = 0, .heads = 3, .head = 8, .first = 5, .theta = 10000.0},
  };
  std::vector<Floats> inputs;
  std::vector<std::unique_ptr<Output>> outputs;
  std::vector<std::unique_ptr<Output>> backs;
  for (const RotarySize& size : sizes) {
    inputs.push_back(random_floats("x", size.batch * size.sequence * size.heads * size.head));
    outputs.push_back(std::make_unique<Output>(static_cast<int64_t>(inputs.back().size())));
    backs.push_back(std::make_unique<Output>(inputs.back()));
  }
  run([&](Stream& stream) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      rotary_forward<float>(stream, inputs[i].data(), outputs[i]->data(), sizes[i]);
      rotary_backward<float>(stream, backs[i]->data(), backs[i]->data(), sizes[i]);  // in place
    }
  });
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Doubles x = to_doubles(inputs[i]);
    const std::string what = " of case " + std::to_string(i);
    expect_close(*outputs[i], turned(x, sizes[i], 1.0), 8.0 * kEpsilon, "y" + what);
    expect_close(*backs[i], turned(x, sizes[i], -1.0), 8.0 * kEpsilon, "dx" + what);
  }
}

TEST(Rotary, HasTheSameBitsForAnyTeam) {
  const RotarySize size{
      .batch = 3, .sequence = 9, .heads = 2, .head = 10, .first = 2, .theta = 10000.0};
  const auto x = random_floats("x", 3 * 9 * 2 * 10);
  expect_same_bits([&](int threads) {
    Output y(x);
    run([&](Stream& stream) { rotary_forward<float>(stream, y.data(), y.data(), size); }, threads);
    return y.values();
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
