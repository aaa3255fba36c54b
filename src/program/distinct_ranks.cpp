// Ranks whose parts of a program's values represent those of all ranks.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "program/program.h"

namespace hidup {

namespace {

// Returns the weights of the coordinate in the axis's shares.
std::vector<int64_t> weights_at(const Axis& axis, int64_t at) {
  std::vector<int64_t> weights;
  for (const Share& share : axis.shares) {
    weights.push_back(share[static_cast<size_t>(at)]);
  }
  return weights;
}

// Returns the coordinates on the axis that represent all.
std::set<int64_t> distinct_coordinates(const Axis& of, const std::set<int64_t>& alone) {
  std::map<std::vector<int64_t>, std::pair<int64_t, int64_t>> alike;  // first and last, by weights
  std::set<int64_t> distinct = alone;
  for (int64_t at = 0; at < of.size; ++at) {
    if (alone.contains(at)) {
      continue;
    }
    alike.try_emplace(weights_at(of, at), at, at).first->second.second = at;
  }
  for (const auto& [weights, ends] : alike) {
    distinct.insert({ends.first, ends.second});
  }
  return distinct;
}

bool cuts_experts(const Placement& placement) {
  return placement.is_shard() && placement.dim == 0;
}

// Adds, per axis, the coordinates of the ranks whose experts expect the most rows and the fewest.
void add_extremes(const Program& program, const Value& rows,
                  std::vector<std::set<int64_t>>& coordinates) {
  std::map<int64_t, double> loads;  // by the first rank with the same experts
  for (int64_t rank = 0; rank < ranks_of(program.mesh); ++rank) {
    int64_t first = 0;
    for (size_t axis = 0; axis < program.mesh.size(); ++axis) {
      if (cuts_experts(rows.layout[axis])) {
        first += coordinate_of(program.mesh, rank, axis) * stride_of(program.mesh, axis);
      }
    }
    if (first == rank) {
      const Region box = region_of(rows.shape, rows.layout, program.mesh, rank);
      const auto experts = rows.packed->loads->begin() + box.start[0];
      loads[rank] = std::accumulate(experts, experts + box.extent[0], 0.0);
    }
  }
  const auto [least, most] =
      std::ranges::minmax_element(loads, {}, &std::pair<const int64_t, double>::second);
  for (size_t axis = 0; axis < program.mesh.size(); ++axis) {
    if (cuts_experts(rows.layout[axis])) {
      coordinates[axis].insert({coordinate_of(program.mesh, least->first, axis),
                                coordinate_of(program.mesh, most->first, axis)});
    }
  }
}

// Returns, per axis, the coordinates of ranks that represent only themselves.
std::vector<std::set<int64_t>> coordinates_alone(const Program& program) {
  std::vector<std::set<int64_t>> alone(program.mesh.size());
  std::vector<const Value*> known;
  for (const Value& value : program.values) {
    for (size_t axis = 0; axis < value.layout.size(); ++axis) {
      if (value.layout[axis].share.is_one_rank()) {
        alone[axis].insert(value.layout[axis].share.rank());
      }
    }
    if (!value.packed || !value.packed->loads || !std::ranges::any_of(value.layout, cuts_experts)) {
      continue;
    }
    const auto is_like_it = [&](const Value* other) {
      return other->packed->loads == value.packed->loads && other->layout == value.layout;
    };
    if (std::ranges::none_of(known, is_like_it)) {
      add_extremes(program, value, alone);
      known.push_back(&value);
    }
  }
  return alone;
}

// `alone`: per axis, coordinates that represent only themselves.
std::vector<int64_t> distinct_ranks_of(const Mesh& mesh,
                                       const std::vector<std::set<int64_t>>& alone) {
  std::vector<int64_t> ranks = {0};
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    std::vector<int64_t> longer;
    for (const int64_t outer : ranks) {
      for (const int64_t at : distinct_coordinates(mesh[axis], alone[axis])) {
        longer.push_back(outer + at * stride_of(mesh, axis));
      }
    }
    ranks = std::move(longer);
  }
  return ranks;
}

}  // namespace

bool has_unequal_parts(const Program& program) {
  return std::ranges::any_of(program.values, [](const Value& value) {
    return !std::ranges::all_of(value.layout, &Placement::is_plain);
  });
}

bool has_unequal_loads(const Program& program) {
  return std::ranges::any_of(program.values, [](const Value& value) {
    return value.packed && value.packed->loads &&
           std::ranges::count(*value.packed->loads, value.packed->loads->front()) !=
               std::ssize(*value.packed->loads);
  });
}

std::vector<int64_t> distinct_ranks(const Program& program) {
  if (!has_unequal_parts(program) && !has_unequal_loads(program)) {
    return {0, ranks_of(program.mesh) - 1};
  }
  return distinct_ranks_of(program.mesh, coordinates_alone(program));
}

std::vector<int64_t> alike_ranks(const Program& program) {
  const Mesh& mesh = program.mesh;
  std::vector<int64_t> alike(static_cast<size_t>(ranks_of(mesh)));
  if (!has_unequal_parts(program) && !has_unequal_loads(program)) {
    return alike;
  }
  const std::vector<std::set<int64_t>> alone = coordinates_alone(program);
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    std::map<std::vector<int64_t>, int64_t> known;  // first coordinates, by weights
    std::vector<int64_t> first(static_cast<size_t>(mesh[axis].size));
    for (int64_t at = 0; at < mesh[axis].size; ++at) {
      first[static_cast<size_t>(at)] =
          alone[axis].contains(at)
              ? at
              : known.try_emplace(weights_at(mesh[axis], at), at).first->second;
    }
    for (size_t rank = 0; rank < alike.size(); ++rank) {
      const int64_t at = coordinate_of(mesh, static_cast<int64_t>(rank), axis);
      alike[rank] += first[static_cast<size_t>(at)] * stride_of(mesh, axis);
    }
  }
  return alike;
}

std::vector<int64_t> distinct_ranks(const Mesh& mesh) {
  if (std::ranges::all_of(mesh, &std::vector<Share>::empty, &Axis::shares)) {
    return {0};
  }
  return distinct_ranks_of(mesh, std::vector<std::set<int64_t>>(mesh.size()));
}

}  // namespace hidup
