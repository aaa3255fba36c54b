#include "program/fuse.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace hidup {
namespace {

using Instructions = std::vector<Instruction>;

bool is_norm(Opcode opcode) {
  return opcode == Opcode::layer_norm || opcode == Opcode::rms_norm;
}

// Positions in the list.
struct NormChain {
  size_t first;  // dropout, or the add
  size_t add, norm;
};

// [dropout,] add and a norm, if they are there from i on. Dropout of a branch is in place of which
// the sum comes, so nobody else reads what it leaves.
std::optional<NormChain> norm_chain_at(const Program& program, size_t i) {
  const Instructions& list = program.instructions;
  const bool drops = list[i].opcode == Opcode::dropout;
  const size_t add = drops ? behind_parameters(list, i) : i;
  if (add >= list.size() || list[i].phase != Phase::forward || list[add].opcode != Opcode::add) {
    return std::nullopt;
  }
  const size_t norm = behind_parameters(list, add);
  if (norm >= list.size() || !is_norm(list[norm].opcode) || !takes(list[norm], 0, list[add]) ||
      !on_same_ranks(program, list[add].outputs[0], list[norm].outputs[0])) {
    return std::nullopt;
  }
  if (drops && (!takes(list[add], 1, list[i]) || list[add].outputs[0] != list[i].outputs[0])) {
    return std::nullopt;
  }
  return NormChain{.first = i, .add = add, .norm = norm};
}

Instruction fused(const Instructions& list, const NormChain& chain) {
  const bool drops = chain.first != chain.add;
  const Instruction& first = list[chain.first];
  const Instruction& add = list[chain.add];
  Instruction norm = list[chain.norm];
  norm.opcode =
      norm.opcode == Opcode::layer_norm ? Opcode::residual_norm : Opcode::residual_rms_norm;
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
  Instructions written;
  written.reserve(list.size() - first);
  for (size_t i = first; i < list.size(); ++i) {
    const std::optional<NormChain> chain = norm_chain_at(program, i);
    if (!chain) {
      written.push_back(std::move(list[i]));
      continue;
    }
    Instruction one = fused(list, *chain);
    for (size_t between = i + 1; between < chain->norm; ++between) {
      if (between != chain->add) {
        written.push_back(std::move(list[between]));
      }
    }
    written.push_back(std::move(one));
    i = chain->norm;
  }
  list.resize(first);
  std::ranges::move(written, std::back_inserter(list));
}

}  // namespace hidup
