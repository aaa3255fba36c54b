#include "program/fuse.h"

#include <optional>
#include <utility>
#include <vector>

namespace hidup {
namespace {

using Instructions = std::vector<Instruction>;

// A product and the instructions that its fusion absorbs; positions in the list.
struct Chain {
  Opcode opcode;
  size_t middle;  // the bias
  size_t last;    // the activation, or the bias where there is none
};

class Fusion {
 public:
  explicit Fusion(Program& program) : program_(program), list_(program.instructions) {}

  void run(size_t first) {
    fuse_chains(
        list_, first, [this](size_t i) { return chain_at(i); },
        [this](size_t i, const Chain& chain) { return fuse(i, chain); });
  }

 private:
  std::optional<Chain> chain_at(size_t product) const {
    const Instruction& first = list_[product];
    if (first.opcode != Opcode::matmul || first.phase != Phase::forward) {
      return std::nullopt;
    }
    const size_t bias = behind_parameters(list_, product);
    if (bias == list_.size() || !adds_to_columns(list_[bias], first)) {
      return std::nullopt;
    }
    const size_t next = behind_parameters(list_, bias);
    if (next < list_.size() && takes(list_[next], 0, first)) {
      const Instruction& activation = list_[next];
      const bool in_place = activation.outputs[0] == first.outputs[0];
      if (activation.opcode == Opcode::relu && in_place) {
        return Chain{Opcode::matmul_bias_relu, bias, next};
      }
      if (activation.opcode == Opcode::gelu && !in_place &&
          on_same_ranks(program_, activation.outputs[0], first.outputs[0])) {
        return Chain{Opcode::matmul_bias_gelu, bias, next};
      }
    }
    return Chain{Opcode::matmul_bias, bias, bias};
  }

  // The bias is added in place, so nobody else reads the product, and it is as long as the rows:
  // the same opcode also adds positions.
  bool adds_to_columns(const Instruction& bias, const Instruction& product) const {
    if (bias.opcode != Opcode::bias || !takes(bias, 0, product) ||
        bias.outputs[0] != product.outputs[0]) {
      return false;
    }
    const auto dims = [&](ValueId value) { return program_.value(value).shape.size(); };
    const auto summed = static_cast<size_t>(product.as<MatmulAttributes>().contract);
    return dims(product.outputs[0]) - dims(bias.inputs[1]) == dims(product.inputs[0]) - summed;
  }

  Instruction fuse(size_t product, const Chain& chain) {
    Instruction fused = std::move(list_[product]);
    fused.opcode = chain.opcode;
    fused.inputs.push_back(list_[chain.middle].inputs[1]);
    if (chain.opcode == Opcode::matmul_bias_gelu) {
      fused.outputs.insert(fused.outputs.begin(), list_[chain.last].outputs[0]);
    }
    return fused;
  }

  Program& program_;
  Instructions& list_;
};

}  // namespace

bool on_same_ranks(const Program& program, ValueId a, ValueId b) {
  for (size_t axis = 0; axis < program.mesh.size(); ++axis) {
    const auto ranks = [&](ValueId id) {
      return support_of(program.mesh[axis], program.value(id).layout[axis].share);
    };
    if (ranks(a) != ranks(b)) {
      return false;
    }
  }
  return true;
}

size_t behind_parameters(const std::vector<Instruction>& list, size_t i) {
  do {
    ++i;
  } while (i < list.size() && list[i].microbatch < 0);
  return i;
}

void fuse_epilogues(Program& program, size_t first) {
  Fusion(program).run(first);
}

}  // namespace hidup
