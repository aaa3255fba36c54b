// From one layout to another: local copies, and collectives with their messages.
#include <algorithm>
#include <vector>

#include "kernels/copy_strided.h"
#include "runtime/hierarchy.h"
#include "runtime/operands.h"

namespace hidup {
namespace {

// What two regions of one tensor have in common.
Region intersection(const Region& a, const Region& b) {
  Region common = a;
  for (int d = 0; d < a.dims; ++d) {
    common.start[d] = std::max(a.start[d], b.start[d]);
    const int64_t end = std::min(a.start[d] + a.extent[d], b.start[d] + b.extent[d]);
    common.extent[d] = std::max<int64_t>(0, end - common.start[d]);
  }
  return common;
}

// How a box of the tensor lies in memory that holds the region densely.
struct Place {
  int64_t offset = 0;
  int64_t stride[kMaxDims] = {};

  Place(const Region& held, const Region& box) {
    int64_t step = 1;
    for (int d = held.dims - 1; d >= 0; --d) {
      stride[d] = step;
      offset += (box.start[d] - held.start[d]) * step;
      step *= held.extent[d];
    }
  }
};

kernels::StridedCopy copy_between(DType dtype, const Region& box, const Place& from,
                                  const Place& to) {
  kernels::StridedCopy copy;
  copy.element = size_of(dtype);
  copy.dims = box.dims;
  copy.from_offset = from.offset;
  copy.to_offset = to.offset;
  std::copy_n(box.extent, kMaxDims, copy.extent);
  std::copy_n(from.stride, kMaxDims, copy.from_stride);
  std::copy_n(to.stride, kMaxDims, copy.to_stride);
  return copy;
}

struct Copy {
  const std::byte* from;
  std::byte* to;
  kernels::StridedCopy elements;
};

void issue(const std::vector<Copy>& copies, Stream& stream) {
  for (const Copy& copy : copies) {
    kernels::copy_strided(stream, copy.from, copy.to, copy.elements);
  }
}

// All values of the instruction have one type.
DType dtype_of(const Operands& at) {
  return at.binding().program.value(at.instruction().inputs[0]).dtype;
}

const std::byte* input(const Operands& at, size_t i) {
  return at.in_as<std::byte>(i);
}
std::byte* output(const Operands& at, size_t i) {
  return at.out_as<std::byte>(i);
}

Copy copy_common(const Operands& at) {
  const Region from = at.in_region(0);
  const Region to = at.out_region(0);
  const Region box = intersection(from, to);
  return {input(at, 0), output(at, 0),
          copy_between(dtype_of(at), box, Place(from, box), Place(to, box))};
}

// One side of the messages between a rank and the ranks along the axis: the boxes of the values
// that go to each of them, or come from it, in the order of ranks and then of values.
class Messages {
 public:
  explicit Messages(const Operands& at) : at_(at) {
    const Binding& binding = at.binding();
    peers_ = collective_group(binding.program, at.instruction(), binding.rank);
  }

  size_t axis() const { return static_cast<size_t>(at_.instruction().axis); }
  size_t peers() const { return peers_.size(); }
  bool is(size_t peer) const { return peers_[peer] == at_.binding().rank; }

  // What this rank has of what the peer wants, and the reverse.
  Region to_peer(size_t value, size_t peer) const {
    return intersection(at_.in_region(value),
                        at_.region(at_.instruction().outputs[value], peers_[peer]));
  }
  Region from_peer(size_t value, size_t peer) const {
    return intersection(at_.region(at_.instruction().inputs[value], peers_[peer]),
                        at_.out_region(value));
  }

  template <typename BoxOf>
  std::vector<int64_t> counts(BoxOf box_of) const {
    std::vector<int64_t> counts(peers(), 0);
    for (size_t p = 0; p < peers(); ++p) {
      for (size_t v = 0; v < at_.instruction().inputs.size(); ++v) {
        counts[p] += box_of(v, p).elements();
      }
    }
    return counts;
  }
  std::vector<int64_t> send_counts() const {
    return counts([this](size_t v, size_t p) { return to_peer(v, p); });
  }
  std::vector<int64_t> receive_counts() const {
    return counts([this](size_t v, size_t p) { return from_peer(v, p); });
  }

  // Copies between the values and a buffer, of the messages to or from the first `count` peers.
  std::vector<Copy> pack(std::byte* buffer, size_t count) const {
    std::vector<Copy> copies;
    for (size_t p = 0; p < count; ++p) {
      for (size_t v = 0; v < at_.instruction().inputs.size(); ++v) {
        const Region box = to_peer(v, p);
        copies.push_back(
            {input(at_, v), buffer,
             copy_between(dtype_of(at_), box, Place(at_.in_region(v), box), Place(box, box))});
        buffer += box.elements() * size_of(dtype_of(at_));
      }
    }
    return copies;
  }
  std::vector<Copy> unpack(const std::byte* buffer, size_t count) const {
    std::vector<Copy> copies;
    for (size_t p = 0; p < count; ++p) {
      for (size_t v = 0; v < at_.instruction().inputs.size(); ++v) {
        const Region box = from_peer(v, p);
        copies.push_back(
            {buffer, output(at_, v),
             copy_between(dtype_of(at_), box, Place(box, box), Place(at_.out_region(v), box))});
        buffer += box.elements() * size_of(dtype_of(at_));
      }
    }
    return copies;
  }

 private:
  const Operands& at_;
  std::vector<int64_t> peers_;
};

Communicator& group_along(const Operands& at) {
  const Instruction& instruction = at.instruction();
  return at.binding().groups.group(static_cast<size_t>(instruction.axis), instruction.group);
}

Hierarchy hierarchy_of(const Operands& at) {
  std::vector<Communicator*> inner;
  for (const int axis : at.instruction().inner_axes) {
    inner.push_back(&at.binding().groups.axis(static_cast<size_t>(axis)));
  }
  return Hierarchy(group_along(at), std::move(inner), at.instruction().algorithms);
}

// Of a collective that is not hierarchical.
CollectiveAlgorithm only_algorithm(const Operands& at) {
  const std::vector<CollectiveAlgorithm>& algorithms = at.instruction().algorithms;
  return algorithms.empty() ? CollectiveAlgorithm::automatic : algorithms[0];
}

// Which rank of its collective's group has that coordinate.
int64_t place_in_group(const Instruction& instruction, int64_t coordinate) {
  const std::vector<int64_t>& group = instruction.group;
  return group.empty() ? coordinate : std::ranges::find(group, coordinate) - group.begin();
}

Launch all_reduce(const Operands& at) {
  const Hierarchy group = hierarchy_of(at);
  const Instruction& instruction = at.instruction();
  const Span sum = span_of(at, instruction.outputs);
  const bool in_place = instruction.inputs == instruction.outputs;
  return [=, from = input(at, 0), dtype = dtype_of(at), name = instruction.name](Stream& stream) {
    if (!in_place) {
      stream.copy(sum.data, from, sum.count * size_of(dtype));
    }
    group.all_reduce(stream, sum.data, sum.count, dtype, name);
  };
}

// Of the values of the only rank that has any.
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

Launch exchange(const Operands& at) {
  Communicator& group = group_along(at);
  const Hierarchy hierarchy = hierarchy_of(at);
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
    } else if (opcode == Opcode::reduce_scatter) {
      hierarchy.reduce_scatter(stream, send, receive, sends, dtype, name);
    } else {
      group.all_to_all(stream, send, sends, receive, receives, dtype, algorithm, name);
    }
    issue(unpack, stream);
  };
}

// Of each rank of the group: from which one it gets a value.
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

// Whole values, from ranks that have them to ranks that do not.
Launch move(const Operands& at) {
  Communicator& group = group_along(at);
  const Instruction& instruction = at.instruction();
  const size_t values = instruction.inputs.size();
  const bool buffered = at.attributes<ReshardAttributes>().packs;
  const std::vector<int> sources = sources_in_group(at);
  const bool gets = sources[static_cast<size_t>(group.rank())] != group.rank();
  std::vector<Copy> keep;  // of a rank that has them and goes on having them
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
  return [=, &group, dtype = dtype_of(at), name = instruction.name](Stream& stream) {
    issue(keep, stream);
    issue(pack, stream);
    group.move(stream, send, receive, count, sources, dtype, name);
    issue(unpack, stream);
  };
}

Launch place(const Operands& at) {
  const Copy copy = copy_common(at);
  const auto axis = static_cast<size_t>(at.instruction().axis);
  const Binding& binding = at.binding();
  const Program& program = binding.program;
  const Value& from = program.value(at.instruction().inputs[0]);
  // Of what several ranks have, the first one keeps it that has a summand, too.
  const std::vector<int64_t> peers = group_of(program.mesh, binding.rank, axis);
  const int64_t keeper = *std::ranges::find_if(peers, [&](int64_t peer) {
    return program.lies_on(at.instruction().inputs[0], peer) &&
           program.lies_on(at.instruction().outputs[0], peer);
  });
  const bool keeps = from.layout[axis].is_replicate()
                         ? binding.rank == keeper
                         : program.lies_on(at.instruction().inputs[0], binding.rank);
  return [=, bytes = elements(at.out_shape(0)) * size_of(from.dtype)](Stream& stream) {
    kernels::fill_zero(stream, copy.to, bytes);
    if (keeps) {
      kernels::copy_strided(stream, copy.from, copy.to, copy.elements);
    }
  };
}

Launch slice(const Operands& at) {
  return [copy = copy_common(at)](Stream& stream) {
    kernels::copy_strided(stream, copy.from, copy.to, copy.elements);
  };
}

}  // namespace

std::vector<LaunchRow> reshard_launches() {
  return {{Opcode::slice, slice},
          {Opcode::place, place},
          {Opcode::all_reduce, all_reduce},
          {Opcode::all_gather, exchange},
          {Opcode::reduce_scatter, exchange},
          {Opcode::all_to_all, exchange},
          {Opcode::broadcast, broadcast},
          {Opcode::move, move}};
}

}  // namespace hidup
