#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "program/fuse.h"

namespace hidup {
namespace {

bool has(const std::vector<ValueId>& values, ValueId value) {
  return std::ranges::find(values, value) != values.end();
}

bool writes(const Instruction& instruction, ValueId value) {
  return has(instruction.outputs, value);
}

bool touches(const Instruction& instruction, ValueId value) {
  return has(instruction.inputs, value) || writes(instruction, value);
}

// Returns the opcode that fuses this one with a sum of its first output.
std::optional<Opcode> adding(Opcode opcode) {
  const std::optional<Opcode> fused = fusing(opcode);
  return fused && spec_of(*fused).signature.inputs.find("added") >= 0 ? fused : std::nullopt;
}

// Looks back from the later instruction, because the earlier one of a pair is a short way before.
class BackwardFusion {
 public:
  explicit BackwardFusion(Program& program)
      : program_(program), list_(program.instructions), fused_(list_.size(), false) {}

  void run() {
    for (size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].opcode == Opcode::gelu_backward) {
        fuse_gelu(i);
      } else if (list_[i].opcode == Opcode::matmul_backward_weight) {
        fuse_bias(i);
      } else if (list_[i].opcode == Opcode::add && list_[i].phase == Phase::backward) {
        fuse_sum(i);
      }
    }
    size_t end = 0;
    for (size_t i = 0; i < list_.size(); ++i) {
      if (!fused_[i]) {
        if (end != i) {
          list_[end] = std::move(list_[i]);
        }
        ++end;
      }
    }
    list_.resize(end);
  }

 private:
  template <typename Condition>
  std::optional<size_t> last_before(size_t end, Condition condition) const {
    for (size_t i = end; i-- > 0;) {
      if (!fused_[i] && condition(list_[i])) {
        return i;
      }
    }
    return std::nullopt;
  }

  // Returns true where the condition holds for no instruction in between.
  template <typename Condition>
  bool none_between(size_t first, size_t last, Condition condition) const {
    return last_before(last, [&](const Instruction& i) {
             return &i == &list_[first] || condition(i);
           }) == first;
  }

  // GELU's backward pass overwrites the product, so nobody else reads it. It moves up there.
  void fuse_gelu(size_t gelu) {
    const ValueId x = list_[gelu].inputs[0];
    const ValueId dy = list_[gelu].inputs[1];
    const auto product = last_before(gelu, [&](const Instruction& i) { return touches(i, dy); });
    if (!product || list_[*product].opcode != Opcode::matmul_backward_input ||
        list_[*product].accumulate || !writes(list_[gelu], dy) || !writes(list_[*product], dy) ||
        !none_between(*product, gelu, [&](const Instruction& i) { return writes(i, x); })) {
      return;
    }
    Instruction& fused = list_[*product];
    fused.opcode = Opcode::matmul_backward_input_gelu;
    fused.inputs.push_back(x);
    fused_[gelu] = true;
  }

  // The bias gradient moves down to the product.
  void fuse_bias(size_t product) {
    Instruction& fused = list_[product];
    const ValueId dy = fused.inputs[1];
    const auto bias = last_before(product, [&](const Instruction& i) {
      return writes(i, dy) || (i.opcode == Opcode::bias_backward && i.inputs[0] == dy);
    });
    if (!bias || list_[*bias].opcode != Opcode::bias_backward ||
        list_[*bias].accumulate != fused.accumulate || !has_its_columns(list_[*bias], fused)) {
      return;
    }
    const ValueId sum = list_[*bias].outputs[0];
    if (!on_same_ranks(program_, sum, fused.outputs[0]) ||
        !none_between(*bias, product, [&](const Instruction& i) { return touches(i, sum); })) {
      return;
    }
    fused.opcode = Opcode::matmul_backward_weight_bias;
    fused.outputs.push_back(sum);
    fused_[*bias] = true;
  }

  // The sum overwrites the norm's output, so nobody else reads that. It moves up to the norm.
  void fuse_sum(size_t sum) {
    const ValueId total = list_[sum].outputs[0];
    const std::vector<ValueId>& parts = list_[sum].inputs;
    const auto norm = last_before(sum, [&](const Instruction& i) { return touches(i, total); });
    if (!norm || parts[1] != total || list_[*norm].outputs[0] != total) {
      return;
    }
    Instruction& fused = list_[*norm];
    const std::optional<Opcode> with_sum = adding(fused.opcode);
    if (!with_sum ||
        !none_between(*norm, sum, [&](const Instruction& i) { return writes(i, parts[0]); })) {
      return;
    }
    fused.opcode = *with_sum;
    fused.inputs.push_back(parts[0]);
    fused_[sum] = true;
  }

  // Returns true where the bias is as long as the product's rows; the same opcode adds positions.
  bool has_its_columns(const Instruction& bias, const Instruction& product) const {
    const auto dims = [&](ValueId value) { return program_.value(value).shape.size(); };
    const auto summed = static_cast<size_t>(product.as<MatmulAttributes>().contract);
    return dims(product.inputs[1]) - dims(bias.outputs[0]) == dims(product.inputs[0]) - summed;
  }

  Program& program_;
  std::vector<Instruction>& list_;
  std::vector<bool> fused_;  // absorbed into another instruction of the list
};

}  // namespace

void fuse_backward(Program& program) {
  BackwardFusion(program).run();
}

}  // namespace hidup
