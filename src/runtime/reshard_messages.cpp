#include "runtime/reshard_messages.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "runtime/packed_rows.h"

namespace hidup {

Place::Place(const Region& held, const Region& box) {
  int64_t step = 1;
  for (int d = held.dims - 1; d >= 0; --d) {
    stride[d] = step;
    offset += (box.start[d] - held.start[d]) * step;
    step *= held.extent[d];
  }
}

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

kernels::StridedCopy dense_copy(int64_t count, int64_t element) {
  kernels::StridedCopy copy;
  copy.element = element;
  copy.dims = 1;
  copy.extent[0] = count;
  copy.from_stride[0] = 1;
  copy.to_stride[0] = 1;
  return copy;
}

void issue(const std::vector<Copy>& copies, Stream& stream) {
  for (const Copy& copy : copies) {
    kernels::copy_strided(stream, copy.from, copy.to, copy.elements);
  }
}

namespace {

bool have_one_shape(const kernels::StridedCopy& a, const kernels::StridedCopy& b) {
  return a.dims == b.dims && std::ranges::equal(a.extent, b.extent) &&
         std::ranges::equal(a.from_stride, b.from_stride) &&
         std::ranges::equal(a.to_stride, b.to_stride);
}

// Returns the number of copies from `first` on that continue at the distances of the first two.
size_t run_of(const std::vector<Copy>& copies, size_t first) {
  size_t last = first;
  while (last + 1 < copies.size() &&
         have_one_shape(copies[last + 1].elements, copies[first].elements) &&
         copies[last + 1].from - copies[last].from == copies[first + 1].from - copies[first].from &&
         copies[last + 1].to - copies[last].to == copies[first + 1].to - copies[first].to) {
    ++last;
  }
  return last + 1 - first;
}

std::vector<Copy> with_runs_joined(const std::vector<Copy>& copies) {
  std::vector<Copy> result;
  for (size_t first = 0; first < copies.size();) {
    const size_t run = copies[first].elements.dims < kMaxDims ? run_of(copies, first) : 1;
    Copy all = copies[first];
    if (run > 1) {
      kernels::StridedCopy& to = all.elements;
      const auto outside = [&](int64_t(&of)[kMaxDims], int64_t value) {
        std::copy_backward(of, of + to.dims, of + to.dims + 1);
        of[0] = value;
      };
      outside(to.extent, static_cast<int64_t>(run));
      outside(to.from_stride, (copies[first + 1].from - all.from) / to.element);
      outside(to.to_stride, (copies[first + 1].to - all.to) / to.element);
      ++to.dims;
    }
    result.push_back(all);
    first += run;
  }
  return result;
}

}  // namespace

std::vector<Copy> joined(std::vector<Copy> copies) {
  std::erase_if(copies, [](const Copy& copy) {
    return std::count(copy.elements.extent, copy.elements.extent + copy.elements.dims, 0) > 0;
  });
  for (Copy& copy : copies) {
    copy.elements = kernels::merged(copy.elements);
    copy.from += copy.elements.from_offset * copy.elements.element;
    copy.to += copy.elements.to_offset * copy.elements.element;
    copy.elements.from_offset = copy.elements.to_offset = 0;
  }
  for (size_t before = copies.size() + 1; copies.size() < before;) {
    before = copies.size();
    copies = with_runs_joined(copies);
  }
  return copies;
}

DType dtype_of(const Operands& at) {
  return at.binding().program.value(at.instruction().inputs[0]).dtype;
}

const std::byte* input(const Operands& at, size_t i) {
  return at.in_as<std::byte>(i);
}

std::byte* output(const Operands& at, size_t i) {
  return at.out_as<std::byte>(i);
}

namespace {

// A value's memory, and the box that lies there.
template <typename Byte>
struct Held {
  Byte* data;
  Region box;
};

// Appends the copies of a box of packed rows between two places, expert by expert. Both places
// contain the box.
void append_rows(const RowCounts& counts, DType dtype, const Region& box,
                 const Held<const std::byte>& from, const Held<std::byte>& to,
                 std::vector<Copy>& copies) {
  const int64_t size = size_of(dtype);
  int64_t first_from = 0;  // rows of the experts before this one
  int64_t first_to = 0;
  const auto skip = [&](const Region& held, int64_t& first) {
    for (int64_t e = held.start[0]; e < box.start[0]; ++e) {
      first += counts.rows_of_expert(held, e);
    }
  };
  skip(from.box, first_from);
  skip(to.box, first_to);
  for (int64_t e = box.start[0]; e < box.start[0] + box.extent[0]; ++e) {
    Copy copy{from.data, to.data, {}};
    copy.elements.element = size;
    copy.elements.dims = 2;
    copy.elements.extent[0] = counts.rows_of_expert(box, e);
    copy.elements.extent[1] = box.extent[3];
    const auto place = [&](const Region& held, int64_t& first, int64_t& offset, int64_t* stride) {
      offset = (first + counts.rows_before(held, e, box.start[1])) * held.extent[3] + box.start[3] -
               held.start[3];
      stride[0] = held.extent[3];
      stride[1] = 1;
      first += counts.rows_of_expert(held, e);
    };
    place(from.box, first_from, copy.elements.from_offset, copy.elements.from_stride);
    place(to.box, first_to, copy.elements.to_offset, copy.elements.to_stride);
    copies.push_back(copy);
  }
}

// Appends the copies of a box of the value from one place to another.
void append_copies(const Operands& at, const Value& value, const Region& box,
                   const Held<const std::byte>& from, const Held<std::byte>& to,
                   std::vector<Copy>& copies) {
  if (value.packed) {
    append_rows(RowCounts(value, at.binding().counts), value.dtype, box, from, to, copies);
  } else {
    copies.push_back({from.data, to.data,
                      copy_between(value.dtype, box, Place(from.box, box), Place(to.box, box))});
  }
}

const Value& input_value(const Operands& at, size_t i) {
  return at.binding().program.value(at.instruction().inputs[i]);
}
Region in_box(const Operands& at, size_t i) {
  return at.region(at.instruction().inputs[i], at.binding().rank);
}
Region out_box(const Operands& at, size_t i) {
  return at.region(at.instruction().outputs[i], at.binding().rank);
}

}  // namespace

std::vector<Copy> copies_in_common(const Operands& at) {
  const Region from = in_box(at, 0);
  const Region to = out_box(at, 0);
  std::vector<Copy> copies;
  if (input_value(at, 0).packed && from.elements() == to.elements()) {  // P and R are both whole
    const int64_t rows = elements(at.in_shape(0));
    return {{input(at, 0), output(at, 0), dense_copy(rows, size_of(dtype_of(at)))}};
  }
  append_copies(at, input_value(at, 0), intersection(from, to), {input(at, 0), from},
                {output(at, 0), to}, copies);
  return joined(std::move(copies));
}

Messages::Messages(const Operands& at)
    : Messages(at, collective_group(at.binding().program, at.instruction(), at.binding().rank)) {}

Messages::Messages(const Operands& at, std::vector<int64_t> peers)
    : at_(at), values_(at.instruction().inputs.size()), peers_(std::move(peers)) {}

Region Messages::box(size_t value, int64_t from, int64_t to) const {
  const Instruction& instruction = at_.instruction();
  return intersection(at_.region(instruction.inputs[value], from),
                      at_.region(instruction.outputs[value], to));
}

int64_t Messages::count_between(int64_t from, int64_t to) const {
  int64_t count = 0;
  for (size_t v = 0; v < values_; ++v) {
    count += elements_of(v, box(v, from, to));
  }
  return count;
}

int64_t Messages::elements_of(size_t value, const Region& box) const {
  const Value& of = input_value(at_, value);
  return of.packed ? RowCounts(of, at_.binding().counts).rows(box) * box.extent[3] : box.elements();
}

std::vector<int64_t> Messages::send_counts() const {
  std::vector<int64_t> counts;
  for (const int64_t peer : peers_) {
    counts.push_back(count_between(at_.binding().rank, peer));
  }
  return counts;
}

std::vector<int64_t> Messages::receive_counts() const {
  std::vector<int64_t> counts;
  for (const int64_t peer : peers_) {
    counts.push_back(count_between(peer, at_.binding().rank));
  }
  return counts;
}

std::vector<Copy> Messages::pack(std::byte* buffer, size_t count) const {
  const DType dtype = dtype_of(at_);
  std::vector<Copy> copies;
  for (size_t p = 0; p < count; ++p) {
    for (size_t v = 0; v < values_; ++v) {
      const Region sent = box(v, at_.binding().rank, peers_[p]);
      append_copies(at_, input_value(at_, v), sent, {input(at_, v), in_box(at_, v)}, {buffer, sent},
                    copies);
      buffer += elements_of(v, sent) * size_of(dtype);
    }
  }
  return joined(std::move(copies));
}

std::vector<Copy> Messages::unpack(const std::byte* buffer, size_t count) const {
  const DType dtype = dtype_of(at_);
  std::vector<Copy> copies;
  for (size_t p = 0; p < count; ++p) {
    for (size_t v = 0; v < values_; ++v) {
      const Region got = box(v, peers_[p], at_.binding().rank);
      append_copies(at_, input_value(at_, v), got, {buffer, got}, {output(at_, v), out_box(at_, v)},
                    copies);
      buffer += elements_of(v, got) * size_of(dtype);
    }
  }
  return joined(std::move(copies));
}

TwoExchanges::TwoExchanges(const Operands& at, const std::vector<int64_t>& beside,
                           const std::vector<int64_t>& across)
    : first(output(at, at.instruction().inputs.size())),
      second(output(at, at.instruction().inputs.size() + 1)),
      sent_inside(beside.size(), 0),
      received_inside(beside.size(), 0),
      sent_along(across.size(), 0),
      received_along(across.size(), 0) {
  const int64_t rank = at.binding().rank;
  std::vector<int64_t> by_rank_across;
  for (const int64_t other : across) {
    for (const int64_t inside : beside) {
      by_rank_across.push_back(other + inside - rank);
    }
  }
  const Messages sent(at);
  const Messages received(at, by_rank_across);
  pack = sent.pack(first, sent.peers());
  unpack = received.unpack(second, received.peers());
  const int64_t size = size_of(dtype_of(at));
  std::vector<int64_t> passed;  // elements to each rank along the axis, by rank inside
  for (size_t b = 0; b < beside.size(); ++b) {
    for (size_t a = 0; a < across.size(); ++a) {
      const int64_t peer = beside[b] + across[a] - rank;
      sent_inside[b] += sent.count_between(rank, peer);
      received_along[a] += sent.count_between(peer, rank);
      passed.push_back(sent.count_between(beside[b], across[a]));
      received_inside[b] += passed.back();
      sent_along[a] += passed.back();
    }
  }
  const ValueId buffer = at.instruction().outputs.at(at.instruction().inputs.size());
  check(std::accumulate(passed.begin(), passed.end(), int64_t{0}) * size <=
            at.binding().plan.sizes[static_cast<size_t>(buffer)],
        "{} passes on more than its buffer holds", at.instruction().name);
  std::vector<int64_t> next(across.size(), 0);  // offset of the next message to each rank, bytes
  for (size_t a = 1; a < across.size(); ++a) {
    next[a] = next[a - 1] + sent_along[a - 1] * size;
  }
  const std::byte* from = second;
  for (size_t m = 0; m < passed.size(); ++m) {
    const size_t a = m % across.size();
    reorder.push_back({from, first + next[a], dense_copy(passed[m], size)});
    from += passed[m] * size;
    next[a] += passed[m] * size;
  }
  reorder = joined(std::move(reorder));
}

}  // namespace hidup
