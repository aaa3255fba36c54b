// Sums of gradients that are sent in 16 bits, by every way to sum on ranks that are threads: how
// far they are from the sums of what the ranks have, and that replicas are equal to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "core/random.h"
#include "device/device.h"
#include "fake_ranks/fake_ranks.h"
#include "print_axis.h"
#include "program/builder.h"
#include "program/memory.h"
#include "program/verify_operands.h"
#include "runtime/bind.h"
#include "sharding/routes.h"
#include "strategy_cases.h"

namespace hidup {

namespace {

constexpr double kBf16 = 0x1p-8;  // relative rounding error
constexpr double kF32 = 0x1p-22;  // of a few additions

// Gradients that go together. The first does not divide, the last is smaller than the ranks.
const std::vector<Shape> kGradients = {{7, 5}, {3, 11}, {1}};

// A rank's summand of an element.
using Summand = std::function<float(int rank, size_t tensor, int64_t index)>;

float any_summand(int rank, size_t tensor, int64_t index) {
  const RandomStream random = random_stream(static_cast<uint64_t>(rank), "summands");
  const auto word = static_cast<uint64_t>(index) + 1000 * tensor;
  return 100.0F * (random.uniform(word) - 0.5F);
}

// Small integers, whose sums have 8 bits.
float exact_summand(int rank, size_t, int64_t index) {
  return static_cast<float>((rank + 1) * (index % 5 - 2));
}

// The elements that a rank ends with.
struct Found {
  std::vector<Region> regions;             // per tensor
  std::vector<std::vector<float>> values;  // likewise
};

// Global index of each of the region's elements, in their order there.
std::vector<int64_t> elements_of(const Region& region) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < region.elements(); ++i) {
    indices.push_back(region.global_index(i));
  }
  return indices;
}

class SumRun {
 public:
  SumRun(const Mesh& mesh, const Layout& from, const Layout& to, const Route& route,
         std::optional<DType> sent_as, const std::vector<Shape>& shapes = kGradients)
      : from_(from) {
    ProgramBuilder builder("sums", mesh, [&](const RouteDemand&) { return route; });
    const auto add_all = [&](const Layout& layout) {
      ValueIds values;
      for (const Shape& shape : shapes) {
        values.push_back(builder.add({.name = "value" + std::to_string(values.size()),
                                      .role = Value::Role::gradient,
                                      .shape = shape,
                                      .layout = layout}));
      }
      return values;
    };
    first_ = add_all(from);
    const Scope scope{.phase = Phase::backward, .bucket = 0, .sums_sent_as = sent_as};
    last_ = builder.reshard(scope, first_, to, "gradients", true, add_all(to));
    builder.weave();
    program_ = builder.take();
    insert_waits(program_);
  }

  const Program& program() const { return program_; }

  // Per rank.
  std::vector<Found> run(const Summand& summand) const {
    std::vector<Found> all(static_cast<size_t>(ranks_of(program_.mesh)));
    run_ranks(static_cast<int>(all.size()), [&](Communicator& world) {
      all[static_cast<size_t>(world.rank())] = run(world, summand);
    });
    return all;
  }

  // Returns true if the rank has a summand. Of replicas, only the first one counts.
  bool has_summand(int rank) const {
    const std::vector<int64_t> at = coordinates_of(program_.mesh, rank);
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const Axis& along = program_.mesh[axis];
      if (from_[axis].is_partial() ? !includes(along, from_[axis].share, at[axis]) : at[axis] > 0) {
        return false;
      }
    }
    return true;
  }

 private:
  // Ranks with the same summands.
  int first_replica(int rank) const {
    const std::vector<int64_t> at = coordinates_of(program_.mesh, rank);
    for (size_t axis = 0; axis < at.size(); ++axis) {
      rank -= from_[axis].is_partial()
                  ? 0
                  : static_cast<int>(at[axis] * stride_of(program_.mesh, axis));
    }
    return rank;
  }

  Found run(Communicator& world, const Summand& summand) const {
    const MemoryPlan plan = plan_memory(program_, world.rank());
    std::vector<std::byte> arena(static_cast<size_t>(plan.bytes) + 64);
    MeshGroups groups(world, program_.mesh);
    groups.add_groups_of(program_);
    const auto device = make_device({});
    const std::unique_ptr<Stream> stream = device->create_stream("stream", 1);
    const Binding binding{program_, plan, world.rank(), arena.data(), nullptr, groups, 1};
    const auto data = [&](ValueId id) {
      return reinterpret_cast<float*>(arena.data() + plan.offsets[static_cast<size_t>(id)]);
    };
    for (size_t t = 0; t < first_.size(); ++t) {
      float* next = data(first_[t]);
      for (const int64_t index : elements_of(program_.region(first_[t], world.rank()))) {
        *next++ = summand(first_replica(world.rank()), t, index);
      }
    }
    for (const Instruction& instruction : program_.instructions) {
      bind(instruction, binding)(*stream);
      stream->synchronize();
    }
    Found found;
    for (const ValueId id : last_) {
      found.regions.push_back(program_.region(id, world.rank()));
      found.values.emplace_back(data(id), data(id) + found.regions.back().elements());
    }
    return found;
  }

  Layout from_;
  ValueIds first_, last_;
  Program program_;
};

struct Sum {
  double exact = 0.0;
  double sizes = 0.0;  // of the summands
};

Sum sum_of(const SumRun& run, const Summand& summand, size_t tensor, int64_t index) {
  Sum sum;
  for (int rank = 0; rank < static_cast<int>(ranks_of(run.program().mesh)); ++rank) {
    if (run.has_summand(rank)) {
      const auto each = static_cast<double>(summand(rank, tensor, index));
      sum.exact += each;
      sum.sizes += std::abs(each);
    }
  }
  return sum;
}

// How far a sum may be: every axis of a sum rounds summands, or sums of some; an all-reduce rounds
// what it has summed.
double bound_of(const SumRun& run, const Sum& sum) {
  double rounded = 0.0;
  double last = 0.0;  // the sum that the last one rounds
  for (const Instruction& instruction : run.program().instructions) {
    if (instruction.sent_as) {
      rounded += static_cast<double>(1 + instruction.inner_axes.size()) * sum.sizes + last;
      last = instruction.opcode == Opcode::all_reduce ? sum.sizes : 0.0;
    }
  }
  rounded += last > 0.0 ? std::abs(sum.exact) : 0.0;
  return kBf16 * (1.0 + 8.0 * kBf16) * rounded + kF32 * sum.sizes;
}

struct Summed {
  Layout from, to;
};

// From summands on some axes to wholes or parts.
std::vector<Summed> sums_on(const Mesh& mesh) {
  const Placement whole = Placement::replicate();
  const Placement sum = Placement::partial();
  std::vector<Layout> from = {{}};
  std::vector<Layout> to = {{}};
  const auto extend = [](std::vector<Layout>& layouts, const std::vector<Placement>& kinds) {
    std::vector<Layout> longer;
    for (const Layout& layout : layouts) {
      for (const Placement& kind : kinds) {
        longer.push_back(layout);
        longer.back().push_back(kind);
      }
    }
    layouts = std::move(longer);
  };
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    std::vector<Placement> sums = {sum};
    std::vector<Placement> totals = {whole, Placement::shard(0)};
    for (size_t share = 1; share <= mesh[axis].shares.size(); ++share) {
      const auto number = ShareNumber::of(static_cast<int64_t>(share));
      sums.push_back(with_share(sum, mesh[axis], number));
      totals.push_back(with_share(whole, mesh[axis], number));
      totals.push_back(Placement::shard(0, number));
    }
    if (mesh.size() > 1) {
      sums.push_back(whole);
    }
    extend(from, sums);
    extend(to, totals);
  }
  std::vector<Summed> pairs;
  for (const Layout& summed : from) {
    for (const Layout& total : to) {
      if (std::ranges::any_of(summed, &Placement::is_partial)) {
        pairs.push_back({summed, total});
      }
    }
  }
  return pairs;
}

bool rounds(const Program& program) {
  return std::ranges::any_of(program.instructions, [](const Instruction& instruction) {
    return instruction.sent_as.has_value();
  });
}

class EverySum : public testing::TestWithParam<Mesh> {
 protected:
  // Calls use() with every way that has a sum.
  template <typename Use>
  int for_all(Use use) const {
    int sums = 0;
    for (const Summed& pair : sums_on(GetParam())) {
      for (const Route& route : reshard_routes(pair.from, pair.to, GetParam())) {
        const SumRun run(GetParam(), pair.from, pair.to, route, DType::bf16);
        if (!rounds(run.program())) {
          continue;
        }
        SCOPED_TRACE(to_string(pair.from) + " to " + to_string(pair.to) + ": " +
                     to_string(route, GetParam()));
        for (const Instruction& instruction : run.program().instructions) {
          EXPECT_NO_THROW(verify_operands(run.program(), instruction));
        }
        use(run);
        ++sums;
        if (testing::Test::HasFailure()) {
          return sums;  // one is enough to read
        }
      }
    }
    return sums;
  }
};

// Calls use(tensor, index, value) for all elements of all ranks.
template <typename Use>
void for_elements(const std::vector<Found>& ranks, Use use) {
  for (const Found& found : ranks) {
    for (size_t t = 0; t < found.values.size(); ++t) {
      const std::vector<int64_t> indices = elements_of(found.regions[t]);
      for (size_t i = 0; i < indices.size(); ++i) {
        use(t, indices[i], found.values[t][i]);
      }
    }
  }
}

TEST_P(EverySum, IsThatOfRoundedSummands) {
  int rounded = 0;
  const int sums = for_all([&](const SumRun& run) {
    const std::vector<Found> found = run.run(any_summand);
    for_elements(found, [&](size_t t, int64_t index, float value) {
      const Sum sum = sum_of(run, any_summand, t, index);
      ASSERT_NEAR(value, sum.exact, bound_of(run, sum)) << "tensor " << t << ", element " << index;
      rounded += std::abs(value - sum.exact) > 2.0 * kF32 * sum.sizes ? 1 : 0;
    });
    EXPECT_EQ(run.run(any_summand)[0].values, found[0].values) << "another time";
  });
  EXPECT_GT(sums, 0);
  EXPECT_GT(rounded, 10 * sums);  // else they were sent in 32
}

TEST_P(EverySum, OfSmallIntegersIsExact) {
  for_all([](const SumRun& run) {
    for_elements(run.run(exact_summand), [&](size_t t, int64_t index, float value) {
      ASSERT_EQ(value, sum_of(run, exact_summand, t, index).exact) << t << " " << index;
    });
  });
}

TEST_P(EverySum, IsTheSameOnAllRanks) {
  for_all([](const SumRun& run) {
    std::map<std::pair<size_t, int64_t>, float> known;
    for_elements(run.run(any_summand), [&](size_t t, int64_t index, float value) {
      ASSERT_EQ(known.try_emplace({t, index}, value).first->second, value) << t << " " << index;
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Meshes, EverySum,
                         testing::Values(Mesh{{"a", 2}}, Mesh{{"a", 3}}, Mesh{{"a", 5}},
                                         Mesh{{"a", 2}, {"b", 2}}, Mesh{{"a", 2}, {"b", 3}},
                                         Mesh{{"a", 2}, {"b", 2}, {"c", 2}},
                                         Mesh{{"a", 4, {{3, 0, 1, 2}, {0, 1, 1, 5}}}},
                                         Mesh{{"a", 2}, {"b", 3, {{4, 0, 1}}}}));

// Along one axis: a rank adds what the others have rounded, in their order, to its own.
float sum_at(int owner, int ranks, size_t tensor, int64_t index) {
  float sum = any_summand(owner, tensor, index);
  for (int rank = 0; rank < ranks; ++rank) {
    sum += rank == owner ? 0.0F : float{BFloat16(any_summand(rank, tensor, index))};
  }
  return sum;
}

TEST(RoundedSums, OfPartsAreRoundedNoMore) {
  const Mesh mesh = {{"ranks", 3}};
  const Layout from = {Placement::partial()};
  const Layout to = {Placement::shard(0)};
  const SumRun run(mesh, from, to, reshard_steps(from, to, mesh), DType::bf16);
  const std::vector<Found> found = run.run(any_summand);
  for (int rank = 0; rank < 3; ++rank) {
    for_elements({found[static_cast<size_t>(rank)]}, [&](size_t t, int64_t index, float value) {
      ASSERT_EQ(value, sum_at(rank, 3, t, index)) << rank << " " << t << " " << index;
    });
  }
}

TEST(RoundedSums, OfWholesAreRoundedOnce) {
  const Mesh mesh = {{"ranks", 3}};
  const Layout from = {Placement::partial()};
  const Layout to = {Placement::replicate()};
  const SumRun run(mesh, from, to, reshard_steps(from, to, mesh), DType::bf16);
  for_elements(run.run(any_summand), [&](size_t t, int64_t index, float value) {
    bool found = false;
    for (int owner = 0; owner < 3; ++owner) {
      found |= value == float{BFloat16(sum_at(owner, 3, t, index))};
    }
    ASSERT_TRUE(found) << t << " " << index << ": " << value;
  });
}

// Every rank has its own summand in 16 bits in the gradients of the others only.
TEST(RoundedSums, InF16HaveElevenBits) {
  const Mesh mesh = {{"ranks", 2}};
  const Layout from = {Placement::partial()};
  const Layout to = {Placement::replicate()};
  const SumRun run(mesh, from, to, reshard_steps(from, to, mesh), DType::f16);
  const Summand summand = [](int rank, size_t, int64_t) { return rank == 0 ? 2047.0F : -1024.0F; };
  for_elements(run.run(summand), [](size_t, int64_t, float value) { ASSERT_EQ(value, 1023.0F); });
}

}  // namespace
}  // namespace hidup
