// Launches that change layouts: local copies, and collectives with their messages.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/hierarchy.h"
#include "runtime/reshard_messages.h"
#include "runtime/rounded_sums.h"

namespace hidup {
namespace {

Communicator& group_along(const Operands& at) {
  const Instruction& instruction = at.instruction();
  if (instruction.flat) {
    return at.binding().groups.along(axes_of_group(instruction));
  }
  return at.binding().groups.group(static_cast<size_t>(instruction.axis), instruction.group,
                                   instruction.stream);
}

std::vector<Communicator*> groups_inside(const Operands& at) {
  const Instruction& instruction = at.instruction();
  std::vector<Communicator*> inner;
  if (is_hierarchical(instruction)) {
    for (const int axis : instruction.inner_axes) {
      inner.push_back(&at.binding().groups.axis(static_cast<size_t>(axis)));
    }
  }
  return inner;
}

Hierarchy hierarchy_of(const Operands& at) {
  return Hierarchy(group_along(at), groups_inside(at), at.instruction().algorithms);
}

// Returns the sums of an instruction with sent_as. Its last output is their buffer.
RoundedSums rounded_sums_of(const Operands& at) {
  const Instruction& instruction = at.instruction();
  const Program& program = at.binding().program;
  const Value& buffer = program.value(instruction.outputs.back());
  const SummedElements room = program.summed_elements(buffer, at.binding().rank);
  return RoundedSums(group_along(at), groups_inside(at), *instruction.sent_as,
                     {output(at, instruction.outputs.size() - 1), room.rounded, room.received},
                     instruction.algorithms);
}

// Returns the algorithm of a collective that is not hierarchical.
CollectiveAlgorithm only_algorithm(const Operands& at) {
  const std::vector<CollectiveAlgorithm>& algorithms = at.instruction().algorithms;
  return algorithms.empty() ? CollectiveAlgorithm::automatic : algorithms[0];
}

// Returns the number, within the collective's group, of the rank with that coordinate.
int64_t place_in_group(const Instruction& instruction, int64_t coordinate) {
  const std::vector<int64_t>& group = instruction.group;
  return group.empty() ? coordinate : std::ranges::find(group, coordinate) - group.begin();
}

Launch all_reduce(const Operands& at) {
  const Hierarchy group = hierarchy_of(at);
  const Instruction& instruction = at.instruction();
  const std::vector<ValueId> sums(
      instruction.outputs.begin(),
      instruction.outputs.begin() + static_cast<std::ptrdiff_t>(instruction.inputs.size()));
  const Span sum = span_of(at, sums);
  const bool in_place = instruction.inputs == sums;
  const std::optional<RoundedSums> rounded =
      instruction.sent_as ? std::optional(rounded_sums_of(at)) : std::nullopt;
  return [=, from = input(at, 0), dtype = dtype_of(at), name = instruction.name](Stream& stream) {
    if (!in_place) {
      stream.copy(sum.data, from, sum.count * size_of(dtype));
    }
    if (rounded) {
      rounded->all_reduce(stream, reinterpret_cast<float*>(sum.data), sum.count, name);
    } else {
      group.all_reduce(stream, sum.data, sum.count, dtype, name);
    }
  };
}

// Broadcasts the values of the only rank that holds any.
Launch broadcast(const Operands& at) {
  Communicator& group = group_along(at);
  const Messages messages(at);
  const std::vector<ValueId>& inputs = at.instruction().inputs;
  const size_t values = inputs.size();
  const Program& program = at.binding().program;
  const Placement& from = program.value(inputs[0]).layout[messages.axis()];
  const int64_t holder = ranks_with(program.mesh[messages.axis()], from.share).front();
  const auto root = static_cast<size_t>(place_in_group(at.instruction(), holder));
  const bool buffered = at.attributes<ReshardAttributes>().unpacks;
  std::byte* data = output(at, buffered ? values : 0);
  const std::vector<int64_t> counts = messages.receive_counts();
  const std::vector<Copy> pack = messages.is(root) ? messages.pack(data, 1) : std::vector<Copy>{};
  const std::vector<Copy> unpack =
      buffered ? messages.unpack(data, messages.peers()) : std::vector<Copy>{};
  return [=, &group, dtype = dtype_of(at), name = at.instruction().name](Stream& stream) {
    issue(pack, stream);
    group.broadcast(stream, data, counts[root], static_cast<int>(root), dtype, name);
    issue(unpack, stream);
  };
}

// Sends along the inner axes from the first buffer to the second, copies the messages back in the
// order of their receivers along the axis, and sends along the axis to the second buffer again.
Launch hierarchical_all_to_all(const Operands& at) {
  const Binding& binding = at.binding();
  const Instruction& instruction = at.instruction();
  const auto axis = static_cast<size_t>(instruction.axis);
  const std::vector<size_t> inner = axes_of_group(instruction);
  const TwoExchanges plan(at, group_of(binding.program.mesh, binding.rank, inner),
                          group_of(binding.program.mesh, binding.rank, axis));
  Communicator& inside = binding.groups.along(inner);
  Communicator& along = binding.groups.axis(axis);
  const std::vector<CollectiveAlgorithm>& by = instruction.algorithms;
  const auto first_by = by.empty() ? CollectiveAlgorithm::automatic : by.at(0);
  const auto second_by = by.empty() ? CollectiveAlgorithm::automatic : by.at(1);
  return [=, &inside, &along, dtype = dtype_of(at), name = instruction.name](Stream& stream) {
    issue(plan.pack, stream);
    inside.all_to_all(stream, plan.first, plan.sent_inside, plan.second, plan.received_inside,
                      dtype, first_by, name);
    issue(plan.reorder, stream);
    along.all_to_all(stream, plan.first, plan.sent_along, plan.second, plan.received_along, dtype,
                     second_by, name);
    issue(plan.unpack, stream);
  };
}

Launch exchange(const Operands& at) {
  Communicator& group = group_along(at);
  const Hierarchy hierarchy = hierarchy_of(at);
  const std::optional<RoundedSums> rounded =
      at.instruction().sent_as ? std::optional(rounded_sums_of(at)) : std::nullopt;
  const Messages messages(at);
  const Opcode opcode = at.instruction().opcode;
  const size_t values = at.instruction().inputs.size();
  const bool packs = at.attributes<ReshardAttributes>().packs;
  const bool unpacks = at.attributes<ReshardAttributes>().unpacks;
  std::byte* to_pack = packs ? output(at, values) : nullptr;
  const std::byte* send = packs ? to_pack : input(at, 0);
  std::byte* receive = output(at, unpacks ? values + (packs ? 1 : 0) : 0);
  // An all-gather sends the same to all; a reduce-scatter receives one sum.
  const size_t all = messages.peers();
  const std::vector<Copy> pack =
      packs ? messages.pack(to_pack, opcode == Opcode::all_gather ? 1 : all) : std::vector<Copy>{};
  const std::vector<Copy> unpack =
      unpacks ? messages.unpack(receive, opcode == Opcode::reduce_scatter ? 1 : all)
              : std::vector<Copy>{};
  return [=, &group, sends = messages.send_counts(), receives = messages.receive_counts(),
          algorithm = only_algorithm(at), dtype = dtype_of(at),
          name = at.instruction().name](Stream& stream) {
    issue(pack, stream);
    if (opcode == Opcode::all_gather) {
      hierarchy.all_gather(stream, send, receive, receives, dtype, name);
    } else if (rounded) {
      rounded->reduce_scatter(stream, reinterpret_cast<const float*>(send),
                              reinterpret_cast<float*>(receive), sends, name);
    } else if (opcode == Opcode::reduce_scatter) {
      hierarchy.reduce_scatter(stream, send, receive, sends, dtype, name);
    } else {
      group.all_to_all(stream, send, sends, receive, receives, dtype, algorithm, name);
    }
    issue(unpack, stream);
  };
}

Launch all_to_all(const Operands& at) {
  const Instruction& instruction = at.instruction();
  return is_hierarchical(instruction) ? hierarchical_all_to_all(at) : exchange(at);
}

// Returns, for each rank of the group, the rank that sends it the values (numbers in the group).
std::vector<int> sources_in_group(const Operands& at) {
  const Binding& binding = at.binding();
  const Instruction& instruction = at.instruction();
  const auto axis = static_cast<size_t>(instruction.axis);
  const auto placement = [&](ValueId id) { return binding.program.value(id).layout[axis]; };
  const std::vector<int64_t> all =
      move_sources(binding.program.mesh[axis], placement(instruction.inputs[0]),
                   placement(instruction.outputs[0]));
  std::vector<int> sources;
  for (size_t coordinate = 0; coordinate < all.size(); ++coordinate) {
    if (instruction.group.empty() ||
        std::ranges::binary_search(instruction.group, static_cast<int64_t>(coordinate))) {
      sources.push_back(static_cast<int>(place_in_group(instruction, all[coordinate])));
    }
  }
  return sources;
}

// Sends whole values from ranks that hold them to ranks that do not.
Launch move(const Operands& at) {
  Communicator& group = group_along(at);
  const Instruction& instruction = at.instruction();
  const size_t values = instruction.inputs.size();
  const bool buffered = at.attributes<ReshardAttributes>().packs;
  const std::vector<int> sources = sources_in_group(at);
  const bool gets = sources[static_cast<size_t>(group.rank())] != group.rank();
  std::vector<Copy> keep;  // local copies, on a rank that holds the values before and after
  std::vector<Copy> pack;
  std::vector<Copy> unpack;
  int64_t count = 0;
  std::byte* to_send = buffered ? output(at, values) : nullptr;
  std::byte* receive = output(at, buffered ? values + 1 : 0);
  std::byte* packed = to_send;
  std::byte* received = receive;
  for (size_t v = 0; v < values; ++v) {
    const Region in = at.in_region(v);
    const Region out = at.out_region(v);
    const Region& whole = gets ? out : in;
    const Place dense(whole, whole);
    const kernels::StridedCopy all = copy_between(dtype_of(at), whole, dense, dense);
    const int64_t bytes = whole.elements() * size_of(dtype_of(at));
    count += whole.elements();
    if (!gets && out.elements() > 0) {
      keep.push_back({input(at, v), output(at, v), all});
    }
    if (buffered && gets) {
      unpack.push_back({received, output(at, v), all});
      received += bytes;
    } else if (buffered) {
      pack.push_back({input(at, v), packed, all});
      packed += bytes;
    }
  }
  const std::byte* send = buffered ? to_send : input(at, 0);
  std::string moved = instruction.name;
  if (instruction.microbatch >= 0) {
    moved += fmt::format(", microbatch {}", instruction.microbatch);
  }
  return [=, &group, dtype = dtype_of(at), name = std::move(moved)](Stream& stream) {
    issue(keep, stream);
    issue(pack, stream);
    group.move(stream, send, receive, count, sources, dtype, name);
    issue(unpack, stream);
  };
}

Launch place(const Operands& at) {
  const std::vector<Copy> copies = copies_in_common(at);
  std::byte* to = output(at, 0);
  const auto axis = static_cast<size_t>(at.instruction().axis);
  const Binding& binding = at.binding();
  const Program& program = binding.program;
  const Value& from = program.value(at.instruction().inputs[0]);
  // If several ranks hold the value, only the first of them that has a summand contributes it.
  const std::vector<int64_t> peers = group_of(program.mesh, binding.rank, axis);
  const int64_t keeper = *std::ranges::find_if(peers, [&](int64_t peer) {
    return program.lies_on(at.instruction().inputs[0], peer) &&
           program.lies_on(at.instruction().outputs[0], peer);
  });
  const bool keeps = from.layout[axis].is_replicate()
                         ? binding.rank == keeper
                         : program.lies_on(at.instruction().inputs[0], binding.rank);
  return [=, bytes = elements(at.out_shape(0)) * size_of(from.dtype)](Stream& stream) {
    kernels::fill_zero(stream, to, bytes);
    if (keeps) {
      issue(copies, stream);
    }
  };
}

Launch slice(const Operands& at) {
  return [copies = copies_in_common(at)](Stream& stream) { issue(copies, stream); };
}

}  // namespace

std::vector<LaunchRow> reshard_launches() {
  return {{Opcode::slice, slice},
          {Opcode::place, place},
          {Opcode::all_reduce, all_reduce},
          {Opcode::all_gather, exchange},
          {Opcode::reduce_scatter, exchange},
          {Opcode::all_to_all, all_to_all},
          {Opcode::broadcast, broadcast},
          {Opcode::move, move}};
}

}  // namespace hidup
