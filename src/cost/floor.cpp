#include "cost/floor.h"

#include <vector>

namespace hidup {

Floor floor_of(Opcode opcode, const Work& work, const DeviceRates& rates) {
  const double bytes_s = work.bytes / rates.memory;
  const double flops_s = is_product(opcode) ? work.flops / rates.products.at(work.dtype) : 0.0;
  return flops_s > bytes_s ? Floor{flops_s, true} : Floor{bytes_s, false};
}

std::optional<StepFloor> step_floor(const Program& program, int64_t rank, const DeviceRates& rates,
                                    DType dtype) {
  if (!rates.products.contains(dtype)) {
    return std::nullopt;
  }
  const AlikeInstructions alike = alike_instructions(program, rank);
  std::vector<double> floors;  // by number of AlikeInstructions
  floors.reserve(alike.first.size());
  for (const int first : alike.first) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(first)];
    if (!collective_of(instruction.opcode).empty()) {
      floors.push_back(0.0);
      continue;
    }
    const Work work = work_of(program, instruction, rank);
    if (is_product(instruction.opcode) && !rates.products.contains(work.dtype)) {
      return std::nullopt;
    }
    floors.push_back(floor_of(instruction.opcode, work, rates).seconds);
  }
  StepFloor floor{.product = rates.products.at(dtype), .memory = rates.memory};
  for (const int number : alike.number) {
    floor.seconds += floors[static_cast<size_t>(number)];
  }
  return floor;
}

}  // namespace hidup
