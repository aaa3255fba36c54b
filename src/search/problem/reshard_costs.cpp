#include "search/problem/reshard_costs.h"

#include <algorithm>
#include <set>

#include "cost/simulate.h"
#include "program/message_parts.h"
#include "program/packing.h"
#include "program/work.h"
#include "sharding/reshard.h"

namespace hidup {
namespace {

void add(MapKey& key, const Layout& layout) {
  for (const Placement& placement : layout) {
    key.add(placement.kind);
    key.add(placement.dim);
    key.add(placement.share.number());
  }
}

MapKey key_of(const Value& value, const Sending& how) {
  MapKey key;
  key.add(value.dtype);
  key.add(how.several);
  key.add(how.sums_as ? 1 + static_cast<int>(*how.sums_as) : 0);
  key.add(value.batch.dim);
  key.add(value.batch.start);
  key.add(value.batch.global);
  key.add(value.shape.size());
  for (const int64_t extent : value.shape) {
    key.add(extent);
  }
  add(key, value.layout);
  add_packed_rows(key, value.packed);
  return key;
}

// Returns ranks among which each part and, given costs, each class of ranks occurs.
std::vector<int64_t> ranks_to_cost(const Mesh& mesh, const RankCosts* of_ranks) {
  std::vector<int64_t> ranks = distinct_ranks(mesh);
  std::set<size_t> classes;
  for (int64_t rank = 0; of_ranks != nullptr && rank < ranks_of(mesh); ++rank) {
    if (classes.insert(of_ranks->class_of(rank)).second && !std::ranges::count(ranks, rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace

Value grown_to(Value value, double bytes) {
  const double now = static_cast<double>(elements(value.shape) * size_of(value.dtype));
  if (now > 0.0) {
    auto longest = std::ranges::max_element(value.shape);
    *longest = static_cast<int64_t>(static_cast<double>(*longest) * bytes / now);
  }
  return value;
}

ReshardCosts::ReshardCosts(const Mesh& mesh, const CostModel& costs, const RankCosts* of_ranks)
    : mesh_(with_equal_shares(mesh)),
      ranks_(ranks_to_cost(mesh, of_ranks)),
      costs_(costs),
      of_ranks_(of_ranks) {}

template <typename Cost>
Reshard ReshardCosts::once(const MapKey& key, Cost cost) const {
  {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(key.text());
    if (at != known_.end()) {
      return at->second;
    }
  }
  const Reshard reshard = cost();  // computed without the lock
  const std::lock_guard lock(mutex_);
  known_.emplace(key.text(), reshard);
  return reshard;
}

Reshard ReshardCosts::cheapest(const Value& value, const Layout& to, const Sending& how) const {
  MapKey key = key_of(value, how);
  add(key, to);
  return once(key, [&] { return cheapest_route(value, to, how); });
}

Reshard ReshardCosts::cheapest_route(const Value& value, const Layout& to,
                                     const Sending& how) const {
  if (mesh_.size() == 1) {
    return along(reshard_steps(value.layout, to, mesh_), value, how);
  }
  std::vector<Reshard> costs;
  for (const Route& route : reshard_routes(value.layout, to, mesh_)) {
    costs.push_back(along(route, value, how));
  }
  return *std::ranges::min_element(
      costs, {}, [](const Reshard& cost) { return cost.comm_s + cost.compute_s; });
}

Reshard ReshardCosts::along(const Route& route, const Value& value, const Sending& how) const {
  Reshard total;
  Value now = value;
  for (const ReshardStep& each : route) {
    const Reshard cost = step(each, now, how);
    total.comm_s += cost.comm_s;
    total.compute_s += cost.compute_s;
    now.layout = each.to;
  }
  return total;
}

Reshard ReshardCosts::step(const ReshardStep& step, const Value& value, const Sending& how) const {
  MapKey key = key_of(value, how);
  add(key, step.to);
  key.add(step.kind);
  key.add(step.axis);
  for (const size_t axis : step.inner) {
    key.add(axis);
  }
  key.add(step.flat);
  return once(key, [&] {
    Value next = value;
    next.layout = step.to;
    return message(
        value, next,
        {.opcode = opcode_of(step.kind),
         .axis = static_cast<int>(step.axis),
         .inner_axes = {step.inner.begin(), step.inner.end()},
         .flat = step.flat,
         .group = step.inner.empty() ? ranks_concerned(mesh_[step.axis], value.layout[step.axis],
                                                       step.to[step.axis])
                                     : std::vector<int64_t>(),
         .inputs = {0},
         .outputs = {1}},
        how);
  });
}

std::vector<int64_t> ReshardCosts::ranks_for(const Program& program) const {
  if (!has_unequal_loads(program)) {
    return ranks_;
  }
  return of_ranks_ != nullptr ? ranks_of_every_kind(program, *of_ranks_) : distinct_ranks(program);
}

double ReshardCosts::operation_s(const Program& program, const Instruction& instruction) const {
  return largest(program, [&](int64_t rank) {
    const CostModel& costs = of_ranks_ != nullptr ? of_ranks_->of(rank) : costs_;
    return costs.operation(instruction.opcode, work_of(program, instruction, rank));
  });
}

Reshard ReshardCosts::message(const Value& from, const Value& to, Instruction instruction,
                              const Sending& how) const {
  Program program{.mesh = mesh_, .values = {from, to}};
  const Opcode opcode = instruction.opcode;
  const auto axis = static_cast<size_t>(instruction.axis);
  if (collective_of(opcode).empty()) {
    return {.compute_s = operation_s(program, instruction) + costs_.launch_s()};
  }
  round_sums(mesh_, instruction, from.dtype, how.sums_as);
  if (instruction.sent_as) {
    program.values.push_back(buffer_of_sums(instruction, instruction.outputs));
  }
  const Packing packing = packing_of(opcode, how.several, reorders_parts(mesh_, instruction),
                                     from.shape, from.layout[axis], to.layout[axis]);
  const double packed = copies_per_buffer(instruction) * largest(program, [&](int64_t rank) {
                          return (packing.sent ? program.expected_bytes(0, rank) : 0) +
                                 (packing.received ? program.expected_bytes(1, rank) : 0) +
                                 (instruction.sent_as ? program.expected_bytes(2, rank) : 0);
                        });
  // Each of the two streams waits for the other once.
  const double bytes =
      largest(program, [&](int64_t rank) { return paced_bytes(program, instruction, rank); });
  instruction.algorithms = algorithms_by(costs_.algorithms(), mesh_, instruction, bytes);
  double seconds = costs_.message(mesh_, instruction, bytes).alone_s + costs_.launch_s() +
                   2.0 * costs_.signal_s();
  if (packed > 0.0) {
    seconds += costs_.collective(Opcode::slice, axis, packed).alone_s;
  }
  return {.comm_s = seconds};
}

}  // namespace hidup
