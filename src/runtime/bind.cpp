#include "runtime/bind.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/with_type.h"
#include "kernels/products.h"
#include "runtime/operands.h"
#include "runtime/packed_rows.h"

namespace hidup {
namespace {

// Indexed by opcode.
using LaunchTable = std::vector<Launch (*)(const Operands& at)>;

template <typename Element>
LaunchTable make_table() {
  LaunchTable table(all_opcodes().size());
  for (const auto& rows :
       {dense_launches<Element>(), sequence_launches<Element>(), expert_launches<Element>(),
        update_launches<Element>(), reshard_launches()}) {
    for (const auto& [opcode, launch] : rows) {
      table.at(static_cast<size_t>(opcode)) = launch;
    }
  }
  return table;
}

// Returns true for an instruction that only makes or sends rows of experts, in a round that has
// none. All ranks know the counts, so all leave it out.
bool has_no_rows(const Instruction& instruction, const Binding& binding) {
  const auto value = [&](ValueId id) -> const Value& { return binding.program.value(id); };
  const bool makes_rows = std::ranges::all_of(instruction.outputs, [&](ValueId id) {
    return value(id).packed ? !value(id).packed->all : !value(id).holds.empty();
  });
  if (!makes_rows || binding.counts == nullptr) {
    return false;
  }
  const Shape& shape = value(instruction.outputs[0]).shape;
  return std::all_of(binding.counts, binding.counts + shape[0] * shape[1],
                     [](int32_t count) { return count == 0; });
}

}  // namespace

Region Operands::held(ValueId id) const {
  const Value& value = binding_.program.value(id);
  const Region box = region(id, binding_.rank);
  if (!value.packed) {
    return box;
  }
  Region rows;
  rows.dims = 2;
  rows.extent[0] = rows.global[0] = RowCounts(value, binding_.counts).rows(box);
  rows.extent[1] = box.extent[3];
  rows.start[1] = box.start[3];
  rows.global[1] = box.global[3];
  return rows;
}

Span span_of(const Operands& at, const std::vector<ValueId>& values) {
  const Binding& binding = at.binding();
  const Value& value = binding.program.value(values.front());
  if (value.packed && values.size() == 1) {
    const Region box = at.region(values[0], binding.rank);
    return {binding.arena + binding.plan.offsets[static_cast<size_t>(values[0])],
            RowCounts(value, binding.counts).rows(box) * box.extent[3]};
  }
  const auto first = static_cast<size_t>(values.front());
  const auto last = static_cast<size_t>(values.back());
  const int64_t start = binding.plan.offsets[first];
  const int64_t end = binding.plan.offsets[last] + binding.plan.sizes[last];
  return {binding.arena + start,
          (end - start) / size_of(binding.program.value(values.front()).dtype)};
}

std::function<void(Stream&)> bind(const Instruction& instruction, const Binding& binding) {
  if (skips(binding.program, instruction, binding.rank) || has_no_rows(instruction, binding)) {
    return [](Stream&) {};
  }
  return with_floating_type(element_dtype(binding.program, instruction), [&](auto zero) {
    static const LaunchTable kTable = make_table<decltype(zero)>();
    auto* const launch = kTable.at(static_cast<size_t>(instruction.opcode));
    if (launch == nullptr) {
      fail(ExitCode::internal, "nothing launches {}", name_of(instruction.opcode));
    }
    Launch work = launch(Operands(instruction, binding));
    if (!instruction.beside_messages || !is_product(instruction.opcode)) {
      return work;
    }
    return Launch([work = std::move(work)](Stream& stream) {
      const kernels::BesideMessages here;
      work(stream);
    });
  });
}

}  // namespace hidup
