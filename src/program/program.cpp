#include "program/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "program/rounds.h"
#include "sharding/rules.h"

namespace hidup {
namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::string_view name_of(StreamKind stream) {
  static constexpr std::array<std::string_view, kStreams> kNames = {"compute", "comm", "down",
                                                                    "up"};
  return kNames.at(static_cast<size_t>(stream));
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return kNames.at(static_cast<size_t>(phase));
}

std::optional<PackedRows> packed_rows_of(const Graph& graph, TensorId id) {
  const TensorId counts = graph.tensor(id).counts;
  if (counts < 0) {
    return std::nullopt;
  }
  const TensorId all = all_counts(graph, counts);
  const Op& counting = graph.op(graph.tensor(all).producer);
  const Shape& routing = graph.tensor(counting.inputs[0]).shape;
  PackedRows rows{.per_sequence = routing[1] * routing[2],
                  .most = routing[1],
                  .tokens = routing[1],
                  .loads = graph.tensor(counts).loads};
  if (const RoundAttributes round = round_of(graph, counts); round.rows > 0) {
    // An expert with rows in round r, from 0, has r times as many in those before it.
    rows.per_sequence /= round.first / round.rows + 1;
    rows.most = round.rows;
    rows.first = round.first;
    rows.all = false;
  } else if (const std::optional<double> slack = graph.tensor(all).slack) {
    rows.most = rows_in_round(routing, graph.tensor(all).shape[0], *slack);
  }
  return rows;
}

bool adds_to(const Instruction& instruction, size_t output) {
  return instruction.accumulate &&
         spec_of(instruction.opcode).signature.outputs.at(output, instruction.outputs.size()).sum;
}

bool Program::lies_on(ValueId id, int64_t rank) const {
  return hidup::lies_on(value(id).layout, mesh, rank);
}

Region Program::region(ValueId id, int64_t rank) const {
  return region_of(value(id).shape, value(id).layout, mesh, rank, value(id).batch);
}

Shape Program::local_shape(ValueId id, int64_t rank) const {
  return shape_of(region(id, rank));
}

Shape Program::expected_shape(ValueId id, int64_t rank) const {
  Shape shape = local_shape(id, rank);
  if (!value(id).packed || elements(shape) == 0) {
    return shape;
  }
  const Region box = region(id, rank);
  double rows = static_cast<double>(shape[1] * shape[2]);  // of one expert
  const PackedRows& packed = *value(id).packed;
  if (const auto& loads = packed.loads; loads && !(packed.all && has_all_experts(value(id), box))) {
    const auto first = loads->begin() + box.start[0];
    rows *= std::accumulate(first, first + box.extent[0], 0.0) / static_cast<double>(shape[0]);
  }
  return {shape[0], 1, std::llround(rows), shape[3]};
}

int64_t Program::expected_bytes(ValueId id, int64_t rank) const {
  const Value& of = value(id);
  if (of.packed) {
    return elements(expected_shape(id, rank)) * size_of(of.dtype);
  }
  if (of.holds.empty() || !of.exchanged_along.empty() || !of.summed_along.empty()) {
    return local_bytes(id, rank);
  }
  int64_t bytes = 0;
  for (const ValueId held : of.holds) {
    bytes += expected_bytes(held, rank);
  }
  return bytes;
}

int64_t Program::local_bytes(ValueId id, int64_t rank) const {
  if (!value(id).exchanged_along.empty()) {
    return exchanged_bytes(value(id), rank);
  }
  if (!value(id).summed_along.empty()) {
    const SummedElements elements = summed_elements(value(id), rank);
    return (elements.rounded + elements.received) * size_of(value(id).dtype);
  }
  if (!value(id).holds.empty()) {
    return held_bytes(value(id).holds, rank);
  }
  if (value(id).packed) {
    return most_elements(value(id), region(id, rank)) * size_of(value(id).dtype);
  }
  const Shape shape = local_shape(id, rank);
  const int64_t count = !value(id).padded_rows || elements(shape) == 0
                            ? elements(shape)
                            : elements(shape) / shape.back() * row_stride(id, rank);
  return count * size_of(value(id).dtype);
}

bool Program::has_all_experts(const Value& packed, const Region& box) {
  return box.extent[0] == packed.shape[0];
}

int64_t Program::most_rows(const Value& packed, const Region& box) {
  const PackedRows& rows = *packed.packed;
  return box.extent[1] * std::min(rows.per_sequence, box.extent[0] * rows.most);
}

int64_t Program::most_elements(const Value& packed, const Region& box) const {
  return most_rows(packed, box) * box.extent[3];
}

int64_t Program::held_bytes(std::span<const ValueId> held, int64_t rank) const {
  int64_t bytes = 0;
  for (const ValueId id : held) {
    bytes += local_bytes(id, rank);
  }
  return bytes;
}

// The ranks next to this one along the inner axes have together one box. The rank forwards the
// parts of that box for the ranks that differ from it only along the outermost axis.
int64_t Program::exchanged_bytes(const Value& buffer, int64_t rank) const {
  const size_t count = buffer.holds.size() / 2;
  const std::span<const ValueId> sent(buffer.holds.data(), count);
  const std::span<const ValueId> received(buffer.holds.data() + count, count);
  const std::vector<size_t>& axes = buffer.exchanged_along;
  int64_t passed = 0;
  for (size_t v = 0; v < count; ++v) {
    Value beside = value(sent[v]);
    for (size_t a = 1; a < axes.size(); ++a) {
      beside.layout[axes[a]] = Placement::replicate();
    }
    const Region box = region_of(beside.shape, beside.layout, mesh, rank, beside.batch);
    passed += beside.packed ? most_elements(beside, box)
                            : elements_wanted(box, value(received[v]), axes[0], rank);
  }
  return std::max(
      {held_bytes(sent, rank), held_bytes(received, rank), passed * size_of(value(sent[0]).dtype)});
}

// Returns the largest part of any rank for equal parts along several axes, else this rank's.
int64_t Program::largest_part(ValueId whole, ValueId part, const std::vector<size_t>& axes,
                              int64_t rank) const {
  if (axes.size() == 1) {
    return elements(local_shape(part, rank));
  }
  Shape shape = local_shape(whole, rank);
  for (const size_t axis : axes) {
    int64_t& cut = shape[static_cast<size_t>(value(part).layout[axis].dim)];
    cut = ceil_div(cut, mesh[axis].size);
  }
  return elements(shape);
}

// The summed elements have the places of the arena, and so begin at aligned addresses. From the
// innermost axis on, a rank receives from every other one as many elements as it continues with.
SummedElements Program::summed_elements(const Value& buffer, int64_t rank) const {
  const int64_t multiple = kValueAlignment / size_of(DType::f32);
  const size_t count = buffer.holds.size() / 2;
  const std::vector<size_t>& axes = buffer.summed_along;
  const Layout& from = value(buffer.holds[0]).layout;
  const Layout& of_sums = value(buffer.holds[count]).layout;
  const auto ranks_along = [&](size_t axis) {
    const auto some =
        static_cast<int64_t>(ranks_concerned(mesh[axis], from[axis], of_sums[axis]).size());
    return some > 0 ? some : mesh[axis].size;
  };
  int64_t ranks = 1;
  for (const size_t axis : axes) {
    ranks *= ranks_along(axis);
  }
  SummedElements all;
  int64_t left = 0;  // elements that the ranks continue with together
  for (size_t v = 0; v < count; ++v) {
    const int64_t own = elements(local_shape(buffer.holds[v], rank));
    const int64_t place = ceil_div(own, multiple) * multiple;
    all.rounded += place;
    left += of_sums[axes[0]].is_shard()
                ? ranks * largest_part(buffer.holds[v], buffer.holds[count + v], axes, rank)
                : place;
  }
  for (size_t a = axes.size(); a-- > 0;) {
    left = ceil_div(left, ranks_along(axes[a]));
    all.received = std::max(all.received, (ranks_along(axes[a]) - 1) * left);
  }
  all.rounded = ceil_div(all.rounded, kValueAlignment) * kValueAlignment;
  return all;
}

// Counts the elements of the box that the ranks of an axis want, each its part of a value. All
// equal parts count as the largest, because there may be thousands of ranks.
int64_t Program::elements_wanted(const Region& box, const Value& of, size_t axis,
                                 int64_t rank) const {
  int64_t wanted = 0;
  if (!std::ranges::all_of(of.layout, &ShareNumber::is_equal, &Placement::share)) {
    for (const int64_t peer : group_of(mesh, rank, axis)) {
      wanted += intersection(box, region_of(of.shape, of.layout, mesh, peer, of.batch)).elements();
    }
    return wanted;
  }
  const auto cut = static_cast<size_t>(of.layout[axis].dim);
  int64_t part = of.shape[cut];
  for (size_t a = 0; a < mesh.size(); ++a) {
    if (of.layout[a].is_shard() && of.layout[a].dim == of.layout[axis].dim) {
      part = (part + mesh[a].size - 1) / mesh[a].size;
    }
  }
  Region all = intersection(box, region_of(of.shape, of.layout, mesh, rank, of.batch));
  all.extent[cut] = std::min(box.extent[cut], mesh[axis].size * part);
  return all.elements();
}

int64_t Program::row_stride(ValueId id, int64_t rank) const {
  const int64_t row = local_shape(id, rank).back();
  return value(id).padded_rows ? (row + kRowMultiple - 1) / kRowMultiple * kRowMultiple : row;
}

ValueId counts_needed(const Program& program, const Instruction& instruction) {
  const auto layout = [&](const std::vector<ValueId>& operands) {
    return gradient_of(program.value(operands[0]).layout);  // summands are whole, too
  };
  const bool sends_parts = spec_of(instruction.opcode).reshard &&
                           layout(instruction.inputs) != layout(instruction.outputs);
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const ValueId id : *operands) {
      const Value& value = program.value(id);
      const bool cuts_experts = std::ranges::any_of(
          value.layout, [](const Placement& at) { return at.is_shard() && at.dim == 0; });
      if (value.packed && (sends_parts || cuts_experts || !value.packed->all ||
                           spec_of(instruction.opcode).random)) {
        return value.packed->counts;
      }
    }
  }
  return -1;
}

bool skips(const Program& program, const Instruction& instruction, int64_t rank) {
  if (collective_of(instruction.opcode).empty()) {
    return std::ranges::none_of(instruction.outputs, [&](ValueId id) {
      return program.value(id).holds.empty() && program.lies_on(id, rank);
    });
  }
  const auto axis = static_cast<size_t>(instruction.axis);
  const std::vector<int64_t>& group = instruction.group;
  if (!group.empty() &&
      !std::ranges::binary_search(group, coordinate_of(program.mesh, rank, axis))) {
    return true;
  }
  Layout layout = program.value(instruction.inputs[0]).layout;
  for (const int inner : instruction.inner_axes) {  // a rank that has nothing may receive something
    layout[static_cast<size_t>(inner)] = Placement::replicate();
  }
  return !lies_on(layout, program.mesh, rank, instruction.axis);
}

RankSteps::RankSteps(const Program& program, int64_t rank) : RankSteps(program) {
  if (!has_unequal_parts(program)) {
    return;
  }
  for (size_t i = 0; i < runs_.size(); ++i) {
    runs_[i] = !skips(program, program.instructions[i], rank);
  }
}

bool is_hierarchical(const Instruction& instruction) {
  return !instruction.inner_axes.empty() && !instruction.flat;
}

bool is_joint_exchange(const Instruction& instruction) {
  return !instruction.inner_axes.empty() &&
         spec_of(instruction.opcode).reshard == ReshardKind::all_to_all;
}

double sent_part(const Program& program, const Instruction& instruction) {
  return instruction.sent_as
             ? static_cast<double>(size_of(*instruction.sent_as)) /
                   static_cast<double>(size_of(program.value(instruction.inputs.at(0)).dtype))
             : 1.0;
}

bool works_along(const Instruction& instruction, size_t axis) {
  return instruction.axis == static_cast<int>(axis) ||
         std::ranges::count(instruction.inner_axes, static_cast<int>(axis)) > 0;
}

namespace {

// Returns the groups of all ranks of `slowest`, one after the other.
std::vector<int64_t> with_each(const std::vector<int64_t>& group,
                               const std::vector<int64_t>& slowest, int64_t rank) {
  std::vector<int64_t> all;
  for (const int64_t along : slowest) {
    for (const int64_t other : group) {
      all.push_back(other + along - rank);
    }
  }
  return all;
}

}  // namespace

std::vector<int64_t> collective_group(const Program& program, const Instruction& instruction,
                                      int64_t rank) {
  const std::vector<size_t> inner(instruction.inner_axes.begin(), instruction.inner_axes.end());
  std::vector<int64_t> all = group_of(program.mesh, rank, static_cast<size_t>(instruction.axis));
  if (is_joint_exchange(instruction) || instruction.flat) {
    all = with_each(all, group_of(program.mesh, rank, inner), rank);
    if (instruction.flat) {
      std::ranges::sort(all);
    }
    return all;
  }
  for (const size_t axis : inner) {
    all = with_each(all, group_of(program.mesh, rank, axis), rank);
  }
  if (instruction.group.empty()) {
    return all;
  }
  std::vector<int64_t> ranks;
  for (const int64_t coordinate : instruction.group) {
    ranks.push_back(all[static_cast<size_t>(coordinate)]);
  }
  return ranks;
}

DType element_dtype(const Program& program, const Instruction& instruction) {
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const ValueId operand : *operands) {
      const DType dtype = program.value(operand).dtype;
      if (is_floating(dtype) && dtype != DType::f32) {
        return dtype;
      }
    }
  }
  return DType::f32;
}

}  // namespace hidup
