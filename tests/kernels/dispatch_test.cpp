#include "kernels/dispatch.h"

#include "routing_test.h"

namespace hidup::kernels::testing {
namespace {

struct DispatchCase {
  RouteSize route;
  int64_t width;
};

DispatchSize whole(const DispatchCase& c) {
  return {c.route.batch,    c.route.sequence, c.route.choices, c.route.experts, 0,
          c.route.capacity, c.width};
}

int64_t buffer_elements(const DispatchSize& size) {
  return size.batch * size.experts * size.capacity * size.width;
}
int64_t token_elements(const DispatchSize& size) {
  return size.batch * size.sequence * size.width;
}
int64_t entries_of(const DispatchSize& size) {
  return size.batch * size.sequence * size.choices;
}

// Calls visit(entry, token, row of [experts, batch, capacity]) for each choice with a slot here.
template <typename Visit>
void for_each_entry(const Ints& routing, const DispatchSize& size, Visit visit) {
  for (int64_t i = 0; i < entries_of(size); ++i) {
    const int64_t entry = routing[static_cast<size_t>(i)];
    if (entry < 0) {
      continue;
    }
    const int64_t expert = entry / size.capacity - size.first_expert;
    if (expert >= 0 && expert < size.experts) {
      const int64_t token = i / size.choices;
      const int64_t sequence = token / size.sequence;
      visit(i, token, (expert * size.batch + sequence) * size.capacity + entry % size.capacity);
    }
  }
}

Doubles dispatched(const Doubles& x, const Ints& routing, const DispatchSize& size) {
  Doubles buffer(static_cast<size_t>(buffer_elements(size)), 0.0);
  for_each_entry(routing, size, [&](int64_t, int64_t token, int64_t row) {
    for (int64_t j = 0; j < size.width; ++j) {
      buffer[static_cast<size_t>(row * size.width + j)] =
          x[static_cast<size_t>(token * size.width + j)];
    }
  });
  return buffer;
}

Doubles combined(const Doubles& buffer, const Ints& routing, const Doubles& weights,
                 const DispatchSize& size) {
  Doubles y(static_cast<size_t>(token_elements(size)), 0.0);
  for_each_entry(routing, size, [&](int64_t i, int64_t token, int64_t row) {
    for (int64_t j = 0; j < size.width; ++j) {
      y[static_cast<size_t>(token * size.width + j)] +=
          weights[static_cast<size_t>(i)] * buffer[static_cast<size_t>(row * size.width + j)];
    }
  });
  return y;
}

struct DispatchInputs {
  explicit DispatchInputs(const DispatchSize& size)
      : x(random_floats("x", token_elements(size))),
        buffer(random_floats("buffer", buffer_elements(size))),
        weights(random_floats("weights", entries_of(size))),
        dy(random_floats("dy", token_elements(size))) {}

  Floats x;
  Floats buffer;  // also its gradient in dispatch_backward
  Floats weights;
  Floats dy;
};

struct DispatchOutputs {
  explicit DispatchOutputs(const DispatchSize& size)
      : buffer(buffer_elements(size)),
        dx(token_elements(size)),
        y(token_elements(size)),
        dbuffer(buffer_elements(size)),
        dweights(entries_of(size)) {}

  Output buffer;
  Output dx;
  Output y;
  Output dbuffer;
  Output dweights;
};

// `buffer`: in.buffer, or the part of it that size describes.
void all_passes(const DispatchInputs& in, const Floats& buffer, const Ints& routing,
                DispatchOutputs& out, const DispatchSize& size, int threads = 1) {
  run(
      [&](Stream& s) {
        const int32_t* r = routing.data();
        dispatch_forward(s, in.x.data(), r, out.buffer.data(), size);
        dispatch_backward(s, buffer.data(), r, out.dx.data(), size);
        combine_forward(s, buffer.data(), r, in.weights.data(), out.y.data(), size);
        combine_backward<float>(s, {.buffer = buffer.data(),
                                    .routing = r,
                                    .weights = in.weights.data(),
                                    .dy = in.dy.data(),
                                    .dbuffer = out.dbuffer.data(),
                                    .dweights = out.dweights.data(),
                                    .size = size});
      },
      threads);
}

const DispatchCase kDispatchCases[] = {
    {{2, 9, 7, 4, 3}, 5},                                                     // four choices
    {{3, 17, 5, 2, 4}, 40},  {{2, 9, 7, 3, 3}, 132},                          // vectorized rows
    {{1, 1, 1, 1, 1}, 1},    {{2, 7, 3, 1, 9}, 5},   {{3, 17, 5, 2, 4}, 37},  // drops some
    {{2, 33, 4, 2, 20}, 67}, {{1, 2, 1, 2, 4}, 3},  // one expert as both choices
    {{4, 40, 3, 2, 30}, 5},  {{2, 9, 4, 2, 0}, 3},   {{0, 5, 3, 1, 2}, 4},
    {{2, 0, 3, 2, 2}, 4},    {{2, 5, 3, 2, 2}, 0}};

TEST(Dispatch, AgreesWithTheDefinitionAndItsDifferences) {
  for (const DispatchCase& c : kDispatchCases) {
    SCOPED_TRACE(::testing::Message() << c.route.sequence << " " << c.route.experts);
    const DispatchSize size = whole(c);
    const auto routing = random_routing(c.route);
    const DispatchInputs in(size);
    DispatchOutputs out(size);
    all_passes(in, in.buffer, routing, out, size);
    const Doubles x = to_doubles(in.x);
    const Doubles buffer = to_doubles(in.buffer);
    const Doubles weights = to_doubles(in.weights);
    const Doubles dy = to_doubles(in.dy);
    expect_close(out.buffer, dispatched(x, routing, size), 0.0, "buffer");
    expect_gradient([&](const Doubles& at) { return dot(dispatched(at, routing, size), buffer); },
                    x, out.dx, 1e-6, "dx");
    expect_close(out.y, combined(buffer, routing, weights, size), 8.0 * kEpsilon, "y");
    expect_gradient(
        [&](const Doubles& at) { return dot(combined(at, routing, weights, size), dy); }, buffer,
        out.dbuffer, 1e-6, "dbuffer");
    expect_gradient([&](const Doubles& at) { return dot(combined(buffer, routing, at, size), dy); },
                    weights, out.dweights, 4e-6, "dweights");
  }
}

TEST(Dispatch, DroppedTokensAreZeros) {
  const DispatchSize size = {1, 2, 1, 1, 0, 1, 2};
  const Ints routing = {0, -1};
  const DispatchInputs in(size);
  DispatchOutputs out(size);
  all_passes(in, in.buffer, routing, out, size);
  EXPECT_EQ(out.buffer.values(), (Floats{in.x[0], in.x[1]}));
  for (const Output* of_tokens : {&out.dx, &out.y}) {
    EXPECT_NE((*of_tokens)[0], 0.0F);
    EXPECT_EQ((*of_tokens)[2], 0.0F);
    EXPECT_EQ((*of_tokens)[3], 0.0F);
  }
  EXPECT_NE(out.dweights[0], 0.0F);
  EXPECT_EQ(out.dweights[1], 0.0F);
}

// Returns the rows of experts first .. last-1 of [experts, batch, capacity, width].
Floats experts_of(const Floats& buffer, const DispatchSize& size, int64_t first, int64_t last) {
  const int64_t expert = size.batch * size.capacity * size.width;
  return {buffer.begin() + first * expert, buffer.begin() + last * expert};
}

// Sums of the results for parts of a buffer.
struct Sums {
  explicit Sums(const DispatchOutputs& like)
      : dx(like.dx.size(), 0.0), y(like.y.size(), 0.0), dweights(like.dweights.size(), 0.0F) {}

  void add(const DispatchOutputs& part) {
    for (size_t i = 0; i < y.size(); ++i) {
      dx[i] += static_cast<double>(part.dx[i]);
      y[i] += static_cast<double>(part.y[i]);
    }
    for (size_t i = 0; i < dweights.size(); ++i) {
      dweights[i] += part.dweights[i];
    }
  }
  // Every entry is in one part, so the sums of its weight's gradients are exact.
  void expect_equal(const DispatchOutputs& whole) const {
    expect_close(whole.dx, dx, 4.0 * kEpsilon, "dx");
    expect_close(whole.y, y, 4.0 * kEpsilon, "y");
    EXPECT_EQ(dweights, whole.dweights.values());
  }

  Doubles dx;
  Doubles y;
  Floats dweights;
};

TEST(Dispatch, RangesOfExpertsMakeUpTheWhole) {
  for (const DispatchCase& c :
       {DispatchCase{{3, 17, 5, 2, 4}, 37}, DispatchCase{{2, 33, 5, 1, 20}, 6}}) {
    const DispatchSize all = whole(c);
    const auto routing = random_routing(c.route);
    const DispatchInputs in(all);
    DispatchOutputs expected(all);
    all_passes(in, in.buffer, routing, expected, all);
    Sums sums(expected);
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, 2}, {2, 2}, {2, 5}, {5, 5}}) {
      DispatchSize size = all;
      size.first_expert = first;
      size.experts = last - first;
      DispatchOutputs out(size);
      all_passes(in, experts_of(in.buffer, all, first, last), routing, out, size);
      EXPECT_EQ(out.buffer.values(), experts_of(expected.buffer.values(), all, first, last));
      EXPECT_EQ(out.dbuffer.values(), experts_of(expected.dbuffer.values(), all, first, last));
      sums.add(out);
    }
    sums.expect_equal(expected);
  }
}

// The rows of [experts, batch, capacity, width] that the counts say are in use, one after the
// other.
Floats packed(const Floats& buffer, const Ints& counts, int64_t capacity, int64_t width) {
  Floats rows;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto first = buffer.begin() + static_cast<int64_t>(i) * capacity * width;
    rows.insert(rows.end(), first, first + counts[i] * width);
  }
  return rows;
}

// Returns the rows of every [expert, sequence] of the size that an entry names.
Ints counts_of(const Ints& routing, const DispatchSize& size) {
  Ints counts(static_cast<size_t>(size.experts * size.batch), 0);
  for_each_entry(routing, size, [&](int64_t, int64_t, int64_t row) {
    ++counts[static_cast<size_t>(row / size.capacity)];
  });
  return counts;
}

TEST(Dispatch, PackedRowsAreTheUsedSlots) {
  for (const DispatchCase& c :
       {DispatchCase{{3, 17, 5, 2, 17}, 37}, DispatchCase{{2, 33, 4, 3, 33}, 40},
        DispatchCase{{3, 9, 6, 2, 5}, 4}}) {
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, c.route.experts}, {1, 3}}) {
      DispatchSize slots = whole(c);
      slots.first_expert = first;
      slots.experts = last - first;
      const auto routing = random_routing(c.route);
      const Ints counts = counts_of(routing, slots);
      const DispatchInputs in(slots);
      DispatchOutputs expected(slots);
      all_passes(in, in.buffer, routing, expected, slots);

      // The room behind the used rows is neither read nor written.
      const auto used = [&](const Floats& of) {
        return packed(of, counts, slots.capacity, slots.width);
      };
      const Floats in_use = used(in.buffer);
      Floats rows(in.buffer.size(), kNan);
      const auto used_elements = std::ranges::copy(in_use, rows.begin()).out - rows.begin();
      DispatchSize size = slots;
      size.counts = counts.data();
      size.rows = buffer_elements(slots) / size.width;
      DispatchOutputs out(slots);
      all_passes(in, rows, routing, out, size);
      const auto expect_rows = [&](const Output& found, const Floats& wanted) {
        const auto values = found.values();
        const auto end = values.begin() + used_elements;
        EXPECT_EQ(Floats(values.begin(), end), wanted);
        EXPECT_TRUE(std::all_of(end, values.end(), [](float x) { return std::isnan(x); }));
      };
      expect_rows(out.buffer, used(expected.buffer.values()));
      expect_rows(out.dbuffer, used(expected.dbuffer.values()));
      EXPECT_EQ(out.dx.values(), expected.dx.values());
      EXPECT_EQ(out.y.values(), expected.y.values());
      EXPECT_EQ(out.dweights.values(), expected.dweights.values());
    }
  }
}

TEST(Dispatch, RoundsTakeAllUsedSlots) {
  constexpr int64_t kRows = 3;  // of an expert and sequence in a round
  const DispatchCase c = {{3, 17, 5, 2, 17}, 37};
  DispatchSize size = whole(c);
  const auto routing = random_routing(c.route);
  const Ints all = counts_of(routing, size);
  const DispatchInputs in(size);
  DispatchOutputs expected(size);
  all_passes(in, in.buffer, routing, expected, size);
  const auto slots = [&](const auto& buffer, const Ints& counts, int64_t first) {
    std::vector<float> rows;  // the used ones from slot `first` on
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto row = static_cast<int64_t>(i) * size.capacity + first;
      const auto begin = buffer.begin() + row * size.width;
      rows.insert(rows.end(), begin, begin + counts[i] * size.width);
    }
    return rows;
  };
  Sums sums(expected);
  for (int64_t first = 0; first < size.capacity; first += kRows) {
    IntOutput counted(static_cast<int64_t>(all.size()));
    run([&](Stream& s) {
      round_counts(s, {all.data(), counted.data(), static_cast<int64_t>(all.size()), first, kRows});
    });
    const Ints counts = counted.values();
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(counts[i], std::clamp<int64_t>(all[i] - first, 0, kRows));
    }
    DispatchSize round = size;
    round.counts = counts.data();
    round.rows = size.experts * size.batch * kRows;
    round.first_slot = first;
    round.slots = kRows;
    const std::vector<float> in_use = slots(in.buffer, counts, first);
    Floats rows(in.buffer.size(), kNan);
    std::ranges::copy(in_use, rows.begin());
    DispatchOutputs out(size);
    all_passes(in, rows, routing, out, round);
    const auto begin_of = [&](const Output& found) {
      const auto values = found.values();
      return std::vector<float>(values.begin(), values.begin() + std::ssize(in_use));
    };
    EXPECT_EQ(begin_of(out.buffer), slots(expected.buffer.values(), counts, first));
    EXPECT_EQ(begin_of(out.dbuffer), slots(expected.dbuffer.values(), counts, first));
    sums.add(out);
  }
  sums.expect_equal(expected);
}

TEST(Dispatch, HasTheSameBitsForAnyTeam) {
  const DispatchCase c = {{3, 65, 7, 2, 17}, 131};
  const DispatchSize size = whole(c);
  const auto routing = random_routing(c.route);
  const DispatchInputs in(size);
  expect_same_bits([&](int threads) {
    DispatchOutputs out(size);
    all_passes(in, in.buffer, routing, out, size, threads);
    return all_of(out.buffer, out.dx, out.y, out.dbuffer, out.dweights);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
