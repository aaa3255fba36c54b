#include "program/verify_recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/check.h"
#include "program/print.h"

namespace hidup {
namespace {

// Numbers contents, so that equal contents have equal numbers.
class RecomputeCheck {
 public:
  explicit RecomputeCheck(const Program& program) : program_(program) {
    for (size_t v = 0; v < program.values.size(); ++v) {
      content_.push_back(new_number());
    }
  }

  void run() {
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      if (instruction.recomputed) {
        check_place(static_cast<int>(i), instruction);
      }
      follow(instruction);
      for (const ValueId output : written(instruction)) {
        if (instruction.phase == Phase::forward) {
          first_.insert(content(output));
          written_first_.insert(output);
        } else if (instruction.recomputed) {
          check(first_.contains(content(output)),
                "{} is recomputed, and leaves something else in {} than the forward pass",
                lazily_described(program_, static_cast<int>(i)), program_.value(output).name);
        }
      }
    }
  }

 private:
  int new_number() { return numbers_++; }
  int& content(ValueId id) { return content_[static_cast<size_t>(id)]; }

  // Returns the outputs without message buffers.
  std::vector<ValueId> written(const Instruction& instruction) const {
    std::vector<ValueId> values = instruction.outputs;
    std::erase_if(values, [&](ValueId id) { return !program_.value(id).holds.empty(); });
    return values;
  }

  void check_place(int i, const Instruction& instruction) const {
    check(instruction.phase == Phase::backward, "{} is recomputed outside of the backward pass",
          lazily_described(program_, i));
    for (const ValueId output : instruction.outputs) {
      check(!written_first_.contains(output) && !program_.value(output).persistent(),
            "{} is recomputed over {} of the forward pass", lazily_described(program_, i),
            program_.value(output).name);
    }
  }

  int number_of(const std::string& key) {
    const auto [at, added] = known_.try_emplace(key, numbers_);
    numbers_ += added ? 1 : 0;
    return at->second;
  }

  // Returns a key of the content and its part.
  std::string part(ValueId id) {
    const Value& value = program_.value(id);
    return fmt::format("{} {} {},", content(id), to_string(value.layout), value.batch.start);
  }

  void follow(const Instruction& instruction) {
    const std::vector<ValueId> outputs = written(instruction);
    if (instruction.phase != Phase::forward && !instruction.recomputed) {
      for (const ValueId output : outputs) {
        content(output) = new_number();
      }
    } else if (is_reshard(instruction.opcode)) {
      follow_reshard(instruction, outputs);
    } else {
      follow_steps(instruction, outputs);
    }
  }

  // A sum is new content, identified by the way it is made. Other reshards copy content.
  void follow_reshard(const Instruction& reshard, const std::vector<ValueId>& outputs) {
    const ReshardKind kind = *spec_of(reshard.opcode).reshard;
    const bool sums = kind == ReshardKind::all_reduce || kind == ReshardKind::reduce_scatter;
    for (size_t k = 0; k < reshard.inputs.size(); ++k) {
      std::string way;
      if (sums) {
        way = fmt::format("{} {}", name_of(reshard.opcode), reshard.axis);
        for (const int inner : reshard.inner_axes) {
          way += fmt::format(" {}", inner);
        }
        way += reshard.flat ? " flat" : "";
        way += " by " + names_of(reshard.algorithms) + part(reshard.inputs[k]);
      }
      content(outputs[k]) = sums ? number_of(way) : content(reshard.inputs[k]);
    }
  }

  // Follows a fused instruction as steps that could run alone.
  void follow_steps(const Instruction& instruction, const std::vector<ValueId>& outputs) {
    using enum Opcode;
    const Opcode opcode = instruction.opcode;
    std::string read;
    for (const ValueId input : instruction.inputs) {
      read += part(input);
    }
    std::string attributes = instruction.purpose;
    for_each_attribute(instruction.attributes, [&](std::string_view name, double value) {
      attributes += fmt::format(" {}={}", name, value);
    });
    if (opcode == matmul_bias_gelu) {
      set({outputs[1]}, fmt::format("{} {} {}", name_of(opcode), attributes, read));
      set({outputs[0]}, fmt::format("{} {}", name_of(gelu), part(outputs[1])));
    } else if (std::holds_alternative<ResidualNormAttributes>(instruction.attributes)) {
      follow_norm_of_sum(instruction, outputs, attributes + read);
    } else if (opcode == gelu) {
      set({outputs[0]}, fmt::format("{} {}", name_of(opcode), read));
    } else if (const auto* norm = std::get_if<LayerNormAttributes>(&instruction.attributes)) {
      set(outputs, fmt::format("{} {} {}", name_of(opcode), norm->epsilon, read));
    } else {
      set(outputs, fmt::format("{} {} {} {}", name_of(opcode), attributes, read,
                               instruction.accumulate ? part(outputs[0]) : ""));
    }
  }

  void follow_norm_of_sum(const Instruction& fused, const std::vector<ValueId>& outputs,
                          const std::string& read) {
    const Opcode norm = spec_of(fused.opcode).fuses.value();
    set({outputs[1]}, fmt::format("{} {}", name_of(fused.opcode), read));
    std::string normalized = part(outputs[1]);
    for (size_t k = 2; k < fused.inputs.size(); ++k) {
      normalized += part(fused.inputs[k]);
    }
    std::vector<ValueId> others = outputs;
    others.erase(others.begin() + 1);
    const double epsilon = fused.as<ResidualNormAttributes>().epsilon;
    set(others, fmt::format("{} {} {}", name_of(norm), epsilon, normalized));
  }

  void set(const std::vector<ValueId>& outputs, const std::string& made) {
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Value& value = program_.value(outputs[k]);
      content(outputs[k]) = number_of(
          fmt::format("{} -> {} {} {}", made, k, to_string(value.layout), value.batch.start));
    }
  }

  const Program& program_;
  int numbers_ = 0;
  std::vector<int> content_;                    // per value, at this point of the list
  std::unordered_map<std::string, int> known_;  // numbers by the key of the content
  std::set<int> first_;                         // contents that the forward pass left in some value
  std::set<ValueId> written_first_;             // values that the forward pass wrote
};

}  // namespace

void verify_recompute(const Program& program) {
  if (std::ranges::any_of(program.instructions, &Instruction::recomputed)) {
    RecomputeCheck(program).run();
  }
}

}  // namespace hidup
