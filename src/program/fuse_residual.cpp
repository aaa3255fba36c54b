#include "program/fuse.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace hidup {
namespace {

using Instructions = std::vector<Instruction>;

bool is_norm(Opcode opcode) {
  return opcode == Opcode::layer_norm || opcode == Opcode::rms_norm;
}

// How many instructions from i on are [dropout,] add and a norm; 0: they are not. Dropout of a
// branch is in place of which the sum comes, so nobody else reads what it leaves.
size_t length_at(const Program& program, size_t i) {
  const Instructions& list = program.instructions;
  const size_t add = list[i].opcode == Opcode::dropout ? i + 1 : i;
  if (add + 1 >= list.size() || list[i].phase != Phase::forward ||
      list[add].opcode != Opcode::add || !is_norm(list[add + 1].opcode) ||
      !takes(list[add + 1], 0, list[add]) ||
      !on_same_ranks(program, list[add].outputs[0], list[add + 1].outputs[0])) {
    return 0;
  }
  const bool drops = add > i;
  if (drops && (!takes(list[add], 1, list[i]) || list[add].outputs[0] != list[i].outputs[0])) {
    return 0;
  }
  return drops ? 3 : 2;
}

Instruction fused(const Instruction* parts, size_t length) {
  const Instruction& add = parts[length - 2];
  Instruction norm = parts[length - 1];
  norm.opcode =
      norm.opcode == Opcode::layer_norm ? Opcode::residual_norm : Opcode::residual_rms_norm;
  norm.inputs[0] = add.inputs[0];
  norm.inputs.insert(norm.inputs.begin(), parts[0].inputs[length == 3 ? 0 : 1]);
  norm.outputs.insert(norm.outputs.begin() + 1, add.outputs[0]);
  norm.attributes =
      ResidualNormAttributes{.epsilon = norm.as<LayerNormAttributes>().epsilon,
                             .p = length == 3 ? parts[0].as<DropoutAttributes>().p : 0.0};
  norm.purpose = parts[0].purpose;
  return norm;
}

}  // namespace

void fuse_residual_norms(Program& program, size_t first) {
  Instructions list;
  list.reserve(program.instructions.size() - first);
  for (size_t i = first; i < program.instructions.size();) {
    const size_t length = length_at(program, i);
    list.push_back(length > 0 ? fused(&program.instructions[i], length)
                              : std::move(program.instructions[i]));
    i += length > 0 ? length : 1;
  }
  program.instructions.resize(first);
  std::ranges::move(list, std::back_inserter(program.instructions));
}

}  // namespace hidup
