#include "kernels/dropout.h"

#include "core/limits.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

constexpr uint64_t kKey = 0x0123456789ABCDEFULL;

// Compares with the definition, one element at a time.
void expect_dropped(const Floats& x, const Output& y, const Region& region, float p,
                    const StepState& state) {
  const RandomStream random{kKey, state.step};
  for (size_t i = 0; i < x.size(); ++i) {
    const auto index = static_cast<uint64_t>(region.global_index(static_cast<int64_t>(i)));
    const bool keep = random.uniform(index) >= p;
    const double expected = keep ? static_cast<double>(x[i]) / (1.0 - static_cast<double>(p)) : 0.0;
    ASSERT_NEAR(static_cast<double>(y[i]), expected, 4.0 * kEpsilon * std::abs(expected))
        << "at " << i << " of " << x.size();
  }
}

TEST(Dropout, FollowsTheDefinitionInEveryPart) {
  const OnDevice<StepState> state({.step = 0x300000002ULL});
  const std::vector<Region> parts = {
      box({3, 5, 40}, {0, 0, 0}, {3, 5, 40}),      // the whole tensor
      box({3, 5, 40}, {1, 0, 0}, {2, 5, 40}),      // sequences
      box({3, 5, 41}, {1, 2, 0}, {2, 3, 41}),      // positions, at odd offsets
      box({3, 5, 41}, {0, 1, 7}, {3, 2, 1}),       // a single column
      box({3, 5, 41}, {0, 1, 7}, {3, 4, 34}),      // columns at odd offsets
      box({2, 3, 2051}, {0, 1, 1}, {2, 2, 2050}),  // runs longer than one pass handles
      box({9000}, {1}, {8999}),                    //
      box({1 << 20, 1 << 14, 8}, {(1 << 20) - 1, (1 << 14) - 5, 3}, {1, 5, 5}),  // beyond 2^32
      box({3, 5, 40}, {1, 2, 0}, {2, 0, 40}),                                    // nothing
      box({3, 5, 40}, {3, 0, 0}, {0, 5, 40}),                                    //
      box({3, 5, 40}, {1, 2, 40}, {2, 3, 0}),                                    //
      box({3, 5, 0}, {0, 0, 0}, {3, 5, 0}),                                      //
      box({}, {}, {}),                                                           // a scalar
  };
  for (const Region& region : parts) {
    for (const float p : {0.0F, 0.1F, 0.5F, 0.999F}) {
      const auto x = random_floats("x", region.elements());
      Output y(region.elements());
      Output in_place(x);
      run([&](Stream& stream) {
        dropout(stream, x.data(), y.data(),
                {.region = region, .p = p, .key = kKey, .state = state.get()});
        dropout(stream, in_place.data(), in_place.data(),
                {.region = region, .p = p, .key = kKey, .state = state.get()});
      });
      expect_dropped(x, y, region, p, *state);
      expect_dropped(x, in_place, region, p, *state);
    }
  }
}

TEST(Dropout, PartsMakeUpTheWhole) {
  const int64_t rows = 6;
  const int64_t columns = 101;
  const OnDevice<StepState> state({.step = 5});
  const auto x = random_floats("x", rows * columns);
  Output whole(rows * columns);
  run([&](Stream& stream) {
    dropout(stream, x.data(), whole.data(),
            {.region = box({rows, columns}, {0, 0}, {rows, columns}),
             .p = 0.3F,
             .key = kKey,
             .state = state.get()});
  });
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 34}, {34, 67}, {67, columns}}) {
    const int64_t width = end - begin;
    Floats part;
    for (int64_t i = 0; i < rows * width; ++i) {
      part.push_back(x[static_cast<size_t>(i / width * columns + begin + i % width)]);
    }
    Output y(rows * width);
    run([&, begin = begin](Stream& stream) {
      dropout(stream, part.data(), y.data(),
              {.region = box({rows, columns}, {0, begin}, {rows, width}),
               .p = 0.3F,
               .key = kKey,
               .state = state.get()});
    });
    for (int64_t i = 0; i < rows * width; ++i) {
      ASSERT_EQ(y[static_cast<size_t>(i)],
                whole[static_cast<size_t>(i / width * columns + begin + i % width)]);
    }
  }
}

TEST(Dropout, KeepsTheRateAndTheMean) {
  const int64_t n = 200000;
  const Floats ones(static_cast<size_t>(n), 1.0F);
  for (const float p : {0.1F, 0.25F, 0.9F}) {
    const OnDevice<StepState> state({.step = 1});
    Output y(n);
    run([&](Stream& stream) {
      dropout(stream, ones.data(), y.data(),
              {.region = box({n}, {0}, {n}), .p = p, .key = kKey, .state = state.get()});
    });
    double kept = 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < y.size(); ++i) {
      kept += y[i] != 0.0F ? 1.0 : 0.0;
      sum += static_cast<double>(y[i]);
    }
    const double rate = 1.0 - static_cast<double>(p);
    const double deviation = std::sqrt(rate * static_cast<double>(p) / static_cast<double>(n));
    EXPECT_NEAR(kept / static_cast<double>(n), rate, 4.0 * deviation);
    EXPECT_NEAR(sum / static_cast<double>(n), 1.0, 4.0 * deviation / rate);
  }
}

// The probabilities are at the limits of decks and graphs.
TEST(Dropout, IsExactEnoughForEveryProbability) {
  for (const double p : {kMinDropout, 1e-3, 0.5, kMaxDropout}) {
    const auto single = static_cast<float>(p);
    const double zeroed = dropout_threshold(single) * 0x1p-32;
    EXPECT_NEAR(zeroed / p, 1.0, 0.1) << p;
    const double scale = 1.0 / (1.0 - static_cast<double>(single));
    EXPECT_NEAR((1.0 - zeroed) * scale, 1.0, 1e-4) << "the mean stays, where p is " << p;
  }
}

TEST(Dropout, ReadsTheStepWhenItRunsAndDiffersByStepAndKey) {
  const int64_t n = 4096;
  const Floats ones(static_cast<size_t>(n), 1.0F);
  const Region region = box({n}, {0}, {n});
  OnDevice<StepState> state({.step = 1});
  const StepState second_step = {.step = 2};
  Output first(n);
  Output second(n);
  Output other_key(n);
  run([&](Stream& stream) {
    dropout(stream, ones.data(), first.data(),
            {.region = region, .p = 0.5F, .key = kKey, .state = state.get()});
    stream.copy(state.get(), &second_step, sizeof(second_step));
    dropout(stream, ones.data(), second.data(),
            {.region = region, .p = 0.5F, .key = kKey, .state = state.get()});
    dropout(stream, ones.data(), other_key.data(),
            {.region = region, .p = 0.5F, .key = kKey + 1, .state = state.get()});
  });
  int64_t same_step = 0;
  int64_t same_key = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    same_step += first[i] == second[i] ? 1 : 0;
    same_key += second[i] == other_key[i] ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(same_step), 0.5 * n, 4.0 * 32.0);  // deviation sqrt(n)/2 = 32
  EXPECT_NEAR(static_cast<double>(same_key), 0.5 * n, 4.0 * 32.0);
}

TEST(Dropout, HasTheSameBitsForAnyTeam) {
  const Region region = box({5, 7, 403}, {1, 2, 3}, {4, 5, 399});
  const OnDevice<StepState> state({.step = 9});
  const auto x = random_floats("x", region.elements());
  expect_same_bits([&](int threads) {
    Output y(region.elements());
    run(
        [&](Stream& s) {
          dropout(s, x.data(), y.data(),
                  {.region = region, .p = 0.2F, .key = kKey, .state = state.get()});
        },
        threads);
    return y.values();
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
