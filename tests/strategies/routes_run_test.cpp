// Every route between two layouts on several axes, run on ranks that are threads: each rank ends
// with its part of the tensor.
#include <gtest/gtest.h>

#include <span>
#include <utility>

#include "device/device.h"
#include "fake_ranks/fake_ranks.h"
#include "print_axis.h"
#include "program/builder.h"
#include "program/memory.h"
#include "runtime/bind.h"
#include "sharding/routes.h"

namespace hidup {

namespace {

// Two tensors in one message, like gradients of a bucket; and single ones, whose messages may need
// no buffers.
const std::vector<std::vector<Shape>> kShapes = {{{7, 5}, {3, 11}}, {{7, 5}}, {{1, 11}}};

// Three axes have many routes, so these are tried with the first entry only.
std::span<const std::vector<Shape>> shapes_on(const Mesh& mesh) {
  return std::span(kShapes).first(mesh.size() > 2 ? 1 : kShapes.size());
}

double element(size_t tensor, int64_t index) {
  return 1.0 + 100.0 * static_cast<double>(tensor) + static_cast<double>(index % 50);
}

struct Pair {
  Layout from, to;
};

std::vector<Pair> pairs_of(const Mesh& mesh, const std::vector<Placement>& kinds) {
  std::vector<Layout> layouts = {{}};
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    std::vector<Layout> longer;
    for (const Layout& layout : layouts) {
      for (const Placement& kind : kinds) {
        longer.push_back(layout);
        longer.back().push_back(kind);
      }
    }
    layouts = std::move(longer);
  }
  std::vector<Pair> pairs;
  for (const Layout& from : layouts) {
    for (const Layout& to : layouts) {
      pairs.push_back({from, to});
    }
  }
  return pairs;
}

// Returns pairs of layouts. On three axes they cut only rows, or cut every axis; where axes have
// shares they cut every axis, equally or by its share.
std::vector<Pair> pairs_on(const Mesh& mesh) {
  const Placement whole = Placement::replicate();
  const Placement sum = Placement::partial();
  const Placement rows = Placement::shard(0);
  const Placement columns = Placement::shard(1);
  if (!mesh[0].shares.empty()) {
    return pairs_of(mesh, {rows, columns, Placement::shard(0, ShareNumber::of(1)),
                           Placement::shard(1, ShareNumber::of(1))});
  }
  if (mesh.size() == 2) {
    return pairs_of(mesh, {whole, sum, rows, columns});
  }
  std::vector<Pair> pairs = pairs_of(mesh, {whole, sum, rows});
  const std::vector<Pair> cut = pairs_of(mesh, {rows, columns});
  pairs.insert(pairs.end(), cut.begin(), cut.end());
  return pairs;
}

// Returns the global index of each of the rank's elements, in their order there.
std::vector<int64_t> indices_of(const Region& region) {
  std::vector<int64_t> indices;
  for (int64_t row = 0; row < region.extent[0]; ++row) {
    for (int64_t column = 0; column < region.extent[1]; ++column) {
      indices.push_back((region.start[0] + row) * region.global[1] + region.start[1] + column);
    }
  }
  return indices;
}

// Returns the number of ranks that have a summand under the layout.
double summands(const Layout& layout, const Mesh& mesh) {
  double ranks = 1.0;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    ranks *= layout[axis].is_partial() ? static_cast<double>(mesh[axis].size) : 1.0;
  }
  return ranks;
}

class RouteRun {
 public:
  RouteRun(const Mesh& mesh, const Pair& pair, const Route& route, std::vector<Shape> shapes)
      : pair_(pair), shapes_(std::move(shapes)) {
    ProgramBuilder builder("route", mesh, [&](const RouteDemand&) { return route; });
    const auto add_all = [&](const Layout& layout) {
      std::vector<ValueId> values;
      for (const Shape& shape : shapes_) {  // gradients are contiguous, and come last
        values.push_back(builder.add({.name = "value" + std::to_string(values.size()),
                                      .role = Value::Role::gradient,
                                      .shape = shape,
                                      .layout = layout}));
      }
      return values;
    };
    first_ = add_all(pair.from);
    last_ = first_;
    if (pair.from != pair.to) {
      last_ = builder.reshard({}, first_, pair.to, "tensor", true, add_all(pair.to));
    }
    builder.weave();
    program_ = builder.take();
    insert_waits(program_);
  }

  void run(Communicator& world) const {
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
      fill(world.rank(), t, data(first_[t]));
    }
    for (const Instruction& instruction : program_.instructions) {
      bind(instruction, binding)(*stream);
      stream->synchronize();
    }
    for (size_t t = 0; t < last_.size(); ++t) {
      check(world, t, data(last_[t]));
    }
  }

 private:
  // Summands differ by rank and add up to the element.
  void fill(int rank, size_t t, float* data) const {
    const std::vector<int64_t> at = coordinates_of(program_.mesh, rank);
    double part = 1.0;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const auto n = static_cast<double>(program_.mesh[axis].size);
      part *= pair_.from[axis].is_partial()
                  ? 2.0 * static_cast<double>(at[axis] + 1) / (n * (n + 1.0))
                  : 1.0;
    }
    for (const int64_t index : indices_of(program_.region(first_[t], rank))) {
      *data++ = static_cast<float>(part * element(t, index));
    }
  }

  // Checks a tensor. Ranks' summands are added up over rank 0's group along these axes.
  void check(Communicator& world, size_t t, const float* data) const {
    const std::vector<int64_t> indices = indices_of(program_.region(last_[t], world.rank()));
    std::vector<double> sums(static_cast<size_t>(elements(shapes_[t])), 0.0);
    for (size_t i = 0; i < indices.size(); ++i) {
      sums[static_cast<size_t>(indices[i])] = static_cast<double>(data[i]);
    }
    if (summands(pair_.to, program_.mesh) == 1.0) {
      for (const int64_t index : indices) {
        ASSERT_NEAR(sums[static_cast<size_t>(index)], element(t, index), 1e-4)
            << "rank " << world.rank() << ", element " << index;
      }
      return;
    }
    const std::vector<std::byte> all = world.all_gather(std::as_bytes(std::span(sums)));
    const auto* values = reinterpret_cast<const double*>(all.data());
    const double copies = copies_of(pair_.to);
    for (size_t index = 0; index < sums.size(); ++index) {
      double total = 0.0;
      for (int rank = 0; rank < world.size(); ++rank) {
        total += values[static_cast<size_t>(rank) * sums.size() + index];
      }
      ASSERT_NEAR(total / copies, element(t, static_cast<int64_t>(index)), 1e-3);
    }
  }

  double copies_of(const Layout& layout) const {
    double copies = 1.0;
    for (size_t axis = 0; axis < layout.size(); ++axis) {
      copies *= layout[axis].is_replicate() ? static_cast<double>(program_.mesh[axis].size) : 1.0;
    }
    return copies;
  }

  Pair pair_;
  std::vector<Shape> shapes_;
  std::vector<ValueId> first_, last_;
  Program program_;
};

class EveryRoute : public ::testing::TestWithParam<Mesh> {};

TEST_P(EveryRoute, GivesEachRankItsPart) {
  std::vector<RouteRun> runs;
  std::vector<std::string> names;
  for (const Pair& pair : pairs_on(GetParam())) {
    for (const Route& route : reshard_routes(pair.from, pair.to, GetParam())) {
      for (const std::vector<Shape>& shapes : shapes_on(GetParam())) {
        runs.emplace_back(GetParam(), pair, route, shapes);
        names.push_back(to_string(pair.from) + " to " + to_string(pair.to) + ": " +
                        to_string(route, GetParam()) + ", " + to_string(shapes[0]));
      }
    }
  }
  run_ranks(static_cast<int>(ranks_of(GetParam())), [&](Communicator& world) {
    for (size_t i = 0; i < runs.size(); ++i) {
      SCOPED_TRACE(names[i]);
      runs[i].run(world);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, EveryRoute,
                         ::testing::Values(Mesh{{"node", 2}, {"gpu", 2}},
                                           Mesh{{"node", 2}, {"gpu", 3}},
                                           Mesh{{.name = "node", .size = 2, .numbered = 1},
                                                {.name = "gpu", .size = 3, .numbered = 0}},
                                           Mesh{{"node", 2, {{1, 3}}}, {"gpu", 3, {{2, 0, 1}}}},
                                           Mesh{{"pod", 2}, {"node", 2}, {"gpu", 2}}),
                         [](const auto& mesh) {
                           std::string name = mesh.param[0].numbered > 0      ? "Renumbered"
                                              : !mesh.param[0].shares.empty() ? "Unequal"
                                                                              : "";
                           for (const Axis& axis : mesh.param) {
                             name += axis.name + std::to_string(axis.size);
                           }
                           return name;
                         });

}  // namespace
}  // namespace hidup
