#include "runtime/bind.h"

#include <utility>
#include <vector>

#include "core/check.h"
#include "core/with_type.h"
#include "kernels/products.h"
#include "runtime/operands.h"

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

}  // namespace

Span span_of(const Operands& at, const std::vector<ValueId>& values) {
  const Binding& binding = at.binding();
  const auto first = static_cast<size_t>(values.front());
  const auto last = static_cast<size_t>(values.back());
  const int64_t start = binding.plan.offsets[first];
  const int64_t end = binding.plan.offsets[last] + binding.plan.sizes[last];
  return {binding.arena + start,
          (end - start) / size_of(binding.program.value(values.front()).dtype)};
}

std::function<void(Stream&)> bind(const Instruction& instruction, const Binding& binding) {
  if (skips(binding.program, instruction, binding.rank)) {
    return [](Stream&) {};
  }
  return with_floating_type(element_dtype(binding.program, instruction), [&](auto zero) {
    static const LaunchTable kTable = make_table<decltype(zero)>();
    auto* const launch = kTable.at(static_cast<size_t>(instruction.opcode));
    check(launch != nullptr, "nothing launches {}", name_of(instruction.opcode));
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
