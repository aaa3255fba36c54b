#include "kernels/expert_matmul.h"

#include <algorithm>
#include <cmath>

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

int64_t rows_of(const ExpertSize& size) {
  return size.batch * size.experts * size.capacity;
}

// Returns random counts up to the capacity. Expert 1 has no tokens, expert 2 fills all slots.
Ints random_counts(const ExpertSize& size) {
  auto counts = random_tokens("counts", size.batch * size.experts, size.capacity + 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t expert = static_cast<int64_t>(i) / size.batch;
    if (expert == 1) {
      counts[i] = 0;
    } else if (expert == 2) {
      counts[i] = static_cast<int32_t>(size.capacity);
    }
  }
  return counts;
}

bool in_use(const Ints& counts, const ExpertSize& size, int64_t row) {
  return row % size.capacity < counts[static_cast<size_t>(row / size.capacity)];
}

// The contents of unused rows of the products' operands: NaN where kernels skip these rows.
const float kProductsUnused = device_kind() == "cpu" ? kNan : 0.0F;

// Returns random rows, with `unused` in those not in use.
Floats random_rows(const std::string& purpose, const Ints& counts, const ExpertSize& size,
                   int64_t width, float unused) {
  auto rows = random_floats(purpose, rows_of(size) * width);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!in_use(counts, size, static_cast<int64_t>(i) / width)) {
      rows[i] = unused;
    }
  }
  return rows;
}

// Calls visit(row, expert, l, j) for all rows in use, l below k and j below n.
template <typename Visit>
void for_each_product(const Ints& counts, const ExpertSize& size, Visit visit) {
  for (int64_t row = 0; row < rows_of(size); ++row) {
    for (int64_t l = 0; in_use(counts, size, row) && l < size.k; ++l) {
      for (int64_t j = 0; j < size.n; ++j) {
        visit(row, row / size.capacity / size.batch, l, j);
      }
    }
  }
}

struct ExpertInputs {
  explicit ExpertInputs(const ExpertSize& size)
      : counts(random_counts(size)),
        x(random_rows("x", counts, size, size.k, kProductsUnused)),
        dy(random_rows("dy", counts, size, size.n, kProductsUnused)),
        dy_of_bias(random_rows("dy", counts, size, size.n, kNan)),
        w(random_floats("w", size.experts * size.k * size.n)),
        bias(random_floats("bias", size.experts * size.n)),
        dw(random_floats("dw", size.experts * size.k * size.n)) {}

  Ints counts;
  Floats x;
  Floats dy;
  Floats dy_of_bias;  // equal in rows in use
  Floats w;
  Floats bias;
  Floats dw;  // before the kernel adds to it
};

struct ExpertOutputs {
  ExpertOutputs(const ExpertSize& size, const ExpertInputs& in)
      : y(rows_of(size) * size.n),
        dx(rows_of(size) * size.k),
        dw(size.experts * size.k * size.n),
        dw_added(in.dw),
        biased(rows_of(size) * size.n),
        biased_in_place(in.dy_of_bias),
        dbias(size.experts * size.n),
        dbias_added(in.bias) {}

  Output y;
  Output dx;
  Output dw;
  Output dw_added;
  Output biased;
  Output biased_in_place;
  Output dbias;
  Output dbias_added;
};

void all_passes(const ExpertInputs& in, ExpertOutputs& out, const ExpertSize& size,
                int threads = 1) {
  run(
      [&](Stream& s) {
        const int32_t* counts = in.counts.data();
        const float* x = in.x.data();
        const float* dy = in.dy.data();
        const float* dy_of_bias = in.dy_of_bias.data();
        expert_matmul(s, x, in.w.data(), counts, out.y.data(), size);
        expert_matmul_backward_input(s, dy, in.w.data(), counts, out.dx.data(), size);
        expert_matmul_backward_weight<float>(s, {.x = x,
                                                 .dy = dy,
                                                 .counts = counts,
                                                 .dw = out.dw.data(),
                                                 .size = size,
                                                 .accumulate = false});
        expert_matmul_backward_weight<float>(s, {.x = x,
                                                 .dy = dy,
                                                 .counts = counts,
                                                 .dw = out.dw_added.data(),
                                                 .size = size,
                                                 .accumulate = true});
        expert_bias(s, dy_of_bias, in.bias.data(), counts, out.biased.data(), size);
        expert_bias(s, out.biased_in_place.data(), in.bias.data(), counts,
                    out.biased_in_place.data(), size);
        expert_bias_backward(s, dy_of_bias, counts, out.dbias.data(), size, false);
        expert_bias_backward(s, dy_of_bias, counts, out.dbias_added.data(), size, true);
      },
      threads);
}

// Results of the kernels, computed in double.
struct ExpertDoubles {
  Doubles y;
  Doubles dx;
  Doubles dw;
  Doubles biased;
  Doubles dbias;

  ExpertDoubles(const ExpertInputs& in, const ExpertSize& size)
      : y(static_cast<size_t>(rows_of(size) * size.n), 0.0),
        dx(static_cast<size_t>(rows_of(size) * size.k), 0.0),
        dw(in.dw.size(), 0.0),
        biased(y),
        dbias(in.bias.size(), 0.0) {
    for_each_product(in.counts, size, [&](int64_t row, int64_t expert, int64_t l, int64_t j) {
      const auto x_at = static_cast<size_t>(row * size.k + l);
      const auto w_at = static_cast<size_t>((expert * size.k + l) * size.n + j);
      const auto y_at = static_cast<size_t>(row * size.n + j);
      y[y_at] += static_cast<double>(in.x[x_at]) * static_cast<double>(in.w[w_at]);
      dx[x_at] += static_cast<double>(in.dy[y_at]) * static_cast<double>(in.w[w_at]);
      dw[w_at] += static_cast<double>(in.x[x_at]) * static_cast<double>(in.dy[y_at]);
    });
    for (int64_t i = 0; i < rows_of(size) * size.n; ++i) {
      const int64_t row = i / size.n;
      if (in_use(in.counts, size, row)) {
        const auto dy = static_cast<double>(in.dy[static_cast<size_t>(i)]);
        const auto at = static_cast<size_t>(row / size.capacity / size.batch * size.n + i % size.n);
        biased[static_cast<size_t>(i)] = dy + static_cast<double>(in.bias[at]);
        dbias[at] += dy;
      }
    }
  }
};

// As in the test of matmul, the tolerance grows with the length of the sums.
double tolerance(int64_t length) {
  return kEpsilon * (8.0 + 2.0 * static_cast<double>(length));
}

void expect_sum(const Output& added, const Doubles& sum, const Floats& before, double tolerance,
                const std::string& what) {
  Doubles expected = sum;
  for (size_t i = 0; i < before.size(); ++i) {
    expected[i] += static_cast<double>(before[i]);
  }
  expect_close(added, expected, tolerance, what);
}

const ExpertSize kSizes[] = {{1, 1, 1, 1, 1},     {3, 2, 5, 7, 9},
                             {4, 3, 37, 33, 130},  // tiles with rows of several sequences
                             {3, 2, 300, 65, 37},  // several tiles of rows
                             {4, 9, 150, 3, 5},    // long sums over sequences
                             {1, 1, 600, 5, 520},  // several tiles of columns
                             {1, 2, 40, 520, 5},   //
                             {1, 2, 0, 3, 4},      // everything is empty
                             {3, 0, 5, 3, 4},     {0, 2, 5, 3, 4},
                             {3, 2, 5, 0, 4},     {3, 2, 5, 4, 0}};

TEST(ExpertMatmul, AgreesWithDouble) {
  for (const ExpertSize& size : kSizes) {
    SCOPED_TRACE(::testing::Message() << size.experts << "x" << size.batch << "x" << size.capacity
                                      << " " << size.k << " " << size.n);
    const ExpertInputs in(size);
    ExpertOutputs out(size, in);
    all_passes(in, out, size);
    const ExpertDoubles expected(in, size);
    const double over_rows = tolerance(size.batch * size.capacity);
    expect_close(out.y, expected.y, tolerance(size.k), "y");
    expect_close(out.dx, expected.dx, tolerance(size.n), "dx");
    expect_close(out.dw, expected.dw, over_rows, "dw");
    expect_sum(out.dw_added, expected.dw, in.dw, over_rows, "dw accumulated");
  }
}

// Differences confirm the gradients: the loss is the sum of dy * y over the rows in use.
TEST(ExpertMatmul, GradientsAreTheDifferences) {
  const ExpertSize size = {4, 3, 5, 7, 6};
  const ExpertInputs in(size);
  ExpertOutputs out(size, in);
  all_passes(in, out, size);
  const auto loss = [&](const Doubles& x, const Doubles& w) {
    double sum = 0.0;
    for_each_product(in.counts, size, [&](int64_t row, int64_t expert, int64_t l, int64_t j) {
      sum += static_cast<double>(in.dy[static_cast<size_t>(row * size.n + j)]) *
             x[static_cast<size_t>(row * size.k + l)] *
             w[static_cast<size_t>((expert * size.k + l) * size.n + j)];
    });
    return sum;
  };
  const Doubles x = to_doubles(in.x);
  const Doubles w = to_doubles(in.w);
  expect_gradient([&](const Doubles& at) { return loss(at, w); }, x, out.dx, 1e-6, "dx");
  expect_gradient([&](const Doubles& at) { return loss(x, at); }, w, out.dw, 1e-6, "dw");
}

TEST(ExpertBias, AgreesWithDouble) {
  for (const ExpertSize& size : kSizes) {
    const ExpertInputs in(size);
    ExpertOutputs out(size, in);
    all_passes(in, out, size);
    const ExpertDoubles expected(in, size);
    const double over_rows = kEpsilon * (8.0 + static_cast<double>(size.batch * size.capacity));
    expect_close(out.biased, expected.biased, kEpsilon, "y");
    expect_close(out.biased_in_place, expected.biased, kEpsilon, "y in place");
    expect_close(out.dbias, expected.dbias, over_rows, "dbias");
    expect_sum(out.dbias_added, expected.dbias, in.bias, over_rows, "dbias accumulated");
  }
}

TEST(ExpertMatmul, HasTheSameBitsForAnyTeam) {
  for (const ExpertSize& size :
       {ExpertSize{4, 3, 37, 33, 130}, {3, 2, 300, 65, 270}, {4, 9, 150, 70, 5}}) {
    const ExpertInputs in(size);
    expect_same_bits([&](int threads) {
      ExpertOutputs out(size, in);
      all_passes(in, out, size, threads);
      return all_of(out.y, out.dx, out.dw, out.dw_added, out.biased, out.biased_in_place, out.dbias,
                    out.dbias_added);
    });
  }
}

// Returns the rows of [experts, batch, capacity, width] that are in use, one after the other, and
// NaN in the room behind them.
template <typename Rows>
Rows packed(const Rows& buffer, const Ints& counts, const ExpertSize& size, int64_t width) {
  Rows rows(buffer.size(), typename Rows::value_type{kNan});
  auto to = rows.begin();
  for (int64_t row = 0; row < rows_of(size); ++row) {
    if (in_use(counts, size, row)) {
      to = std::copy_n(buffer.begin() + row * width, width, to);
    }
  }
  return rows;
}

struct PackedInputs : ExpertInputs {
  ExpertSize size;

  PackedInputs(const ExpertInputs& in, const ExpertSize& slots) : ExpertInputs(in), size(slots) {
    x = packed(in.x, in.counts, slots, slots.k);
    dy = packed(in.dy, in.counts, slots, slots.n);
    dy_of_bias = packed(in.dy_of_bias, in.counts, slots, slots.n);
    size.packed = true;
    size.rows = rows_of(slots);
  }
};

// Packed rows have what the slots in use have; the room behind them is neither read nor written.
TEST(ExpertMatmul, PackedRowsAreTheUsedSlots) {
  for (const ExpertSize& slots : kSizes) {
    SCOPED_TRACE(::testing::Message() << slots.experts << "x" << slots.batch << "x"
                                      << slots.capacity << " " << slots.k << " " << slots.n);
    const ExpertInputs in(slots);
    const ExpertDoubles expected(in, slots);
    const PackedInputs rows(in, slots);
    ExpertOutputs out(slots, rows);
    all_passes(rows, out, rows.size);
    const auto expect_rows = [&](const Output& found, const Doubles& of_slots, int64_t width,
                                 double most, const std::string& what) {
      const Doubles wanted = packed(of_slots, in.counts, slots, width);
      const auto end = std::ranges::find_if(wanted, [](double x) { return std::isnan(x); });
      const auto values = found.values();
      const auto used = values.begin() + (end - wanted.begin());
      expect_close(Floats(values.begin(), used), Doubles(wanted.begin(), end), most, what);
      EXPECT_TRUE(std::all_of(used, values.end(), [](float x) { return std::isnan(x); })) << what;
    };
    expect_rows(out.y, expected.y, slots.n, tolerance(slots.k), "y");
    expect_rows(out.dx, expected.dx, slots.k, tolerance(slots.n), "dx");
    expect_rows(out.biased, expected.biased, slots.n, kEpsilon, "biased");
    expect_rows(out.biased_in_place, expected.biased, slots.n, kEpsilon, "biased in place");
    const double over_rows = tolerance(slots.batch * slots.capacity);
    expect_close(out.dw, expected.dw, over_rows, "dw");
    expect_sum(out.dw_added, expected.dw, in.dw, over_rows, "dw accumulated");
    expect_close(out.dbias, expected.dbias, over_rows, "dbias");
    expect_sum(out.dbias_added, expected.dbias, in.bias, over_rows, "dbias accumulated");
  }
}

TEST(ExpertMatmul, PackedRowsHaveTheSameBitsForAnyTeam) {
  for (const ExpertSize& slots : {ExpertSize{4, 3, 37, 33, 130}, {3, 2, 300, 65, 37}}) {
    const PackedInputs in(ExpertInputs(slots), slots);
    expect_same_bits([&](int threads) {
      ExpertOutputs out(slots, in);
      all_passes(in, out, in.size, threads);
      return all_of(out.y, out.dx, out.biased, out.dw, out.dw_added, out.dbias, out.dbias_added);
    });
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
