#include "program/fuse.h"

#include <optional>
#include <vector>

namespace hidup {
namespace {

using Instructions = std::vector<Instruction>;

bool is_norm(const Instruction& instruction) {
  return std::holds_alternative<LayerNormAttributes>(instruction.attributes);
}

// The instructions after the first, which is the dropout or the add; positions in the list.
struct NormChain {
  size_t middle;  // the add
  size_t last;    // the norm
};

// Finds [dropout,] add and a norm from i on. The sum overwrites the output of the branch's dropout,
// so nobody else reads that.
std::optional<NormChain> norm_chain_at(const Program& program, size_t i) {
  const Instructions& list = program.instructions;
  const bool drops = list[i].opcode == Opcode::dropout;
  const size_t add = drops ? behind_parameters(list, i) : i;
  if (add >= list.size() || list[i].phase != Phase::forward || list[add].opcode != Opcode::add) {
    return std::nullopt;
  }
  const size_t norm = behind_parameters(list, add);
  if (norm >= list.size() || !is_norm(list[norm]) || !takes(list[norm], 0, list[add]) ||
      !on_same_ranks(program, list[add].outputs[0], list[norm].outputs[0])) {
    return std::nullopt;
  }
  if (drops && (!takes(list[add], 1, list[i]) || list[add].outputs[0] != list[i].outputs[0])) {
    return std::nullopt;
  }
  return NormChain{.middle = add, .last = norm};
}

Instruction fused(const Instructions& list, size_t i, const NormChain& chain) {
  const bool drops = i != chain.middle;
  const Instruction& first = list[i];
  const Instruction& add = list[chain.middle];
  Instruction norm = list[chain.last];
  norm.opcode = fusing(norm.opcode).value();
  norm.inputs[0] = add.inputs[0];
  norm.inputs.insert(norm.inputs.begin(), first.inputs[drops ? 0 : 1]);
  norm.outputs.insert(norm.outputs.begin() + 1, add.outputs[0]);
  norm.attributes = ResidualNormAttributes{.epsilon = norm.as<LayerNormAttributes>().epsilon,
                                           .p = drops ? first.as<DropoutAttributes>().p : 0.0};
  norm.purpose = first.purpose;
  return norm;
}

}  // namespace

void fuse_residual_norms(Program& program, size_t first) {
  Instructions& list = program.instructions;
  fuse_chains(
      list, first, [&](size_t i) { return norm_chain_at(program, i); },
      [&](size_t i, const NormChain& chain) { return fused(list, i, chain); });
}

}  // namespace hidup
