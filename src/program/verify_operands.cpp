#include "program/verify_operands.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "program/padded_rows.h"

namespace hidup {
namespace {

class OperandCheck {
 public:
  OperandCheck(const Program& program, const Instruction& instruction)
      : program_(program),
        instruction_(instruction),
        spec_(spec_of(instruction.opcode)),
        element_(element_dtype(program, instruction)) {}

  void run() const {
    const Instruction& i = instruction_;
    check(i.attributes.index() == spec_.attributes.index(), "{} {} has attributes of another kind",
          spec_.name, i.name);
    check_count(i.inputs, i.inputs.size(), spec_.signature.inputs);
    const size_t written = i.outputs.size() - buffers();
    check_count(i.outputs, written, spec_.signature.outputs);
    std::vector<std::pair<ValueId, size_t>> inputs;  // sorted: a bucket has thousands
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      inputs.emplace_back(i.inputs[k], k);
    }
    std::ranges::sort(inputs);
    bool sums = false;
    for (size_t k = 0; k < written; ++k) {
      const Operand& output = spec_.signature.outputs.at(k, written);
      check_in_place(inputs, i.outputs[k], output);
      sums |= output.sum;
    }
    check(sums || !i.accumulate, "{} {} cannot accumulate", spec_.name, i.name);
    check_padding();
    check_shares(written);
    check_sent_as(written);
    if (spec_.reshard) {
      check_reshard();
    } else if (i.opcode == Opcode::convert) {
      check_convert();
    }
  }

 private:
  // Returns the number of outputs that are message buffers. They come after the values.
  size_t buffers() const {
    return static_cast<size_t>(std::ranges::count_if(
        instruction_.outputs, [&](ValueId id) { return !program_.value(id).holds.empty(); }));
  }

  void check_count(const std::vector<ValueId>& values, size_t count,
                   const OperandList& wanted) const {
    check(wanted.takes(count), "{} {} has {} operands where it takes {}", spec_.name,
          instruction_.name, count, wanted.text());
    for (size_t k = 0; k < count; ++k) {
      const char type = wanted.at(k, count).type;
      if (type == 'i' || type == 'f' || type == 'T') {
        expect(values[k], type == 'i' ? DType::i32 : type == 'f' ? DType::f32 : element_);
      }
    }
  }

  // Checks that an output is an input only where its operand allows it.
  void check_in_place(const std::vector<std::pair<ValueId, size_t>>& inputs, ValueId id,
                      const Operand& output) const {
    for (auto at = std::ranges::lower_bound(inputs, std::pair(id, size_t{0}));
         at != inputs.end() && at->first == id; ++at) {
      const std::string_view name = spec_.signature.inputs.at(at->second, inputs.size()).name;
      check(std::ranges::find(output.over, name) != output.over.end(),
            "{} {} writes {} over its input {}", spec_.name, instruction_.name,
            program_.value(id).name, name);
    }
  }

  // Checks that only paddable operands are padded, and that all of them are alike.
  void check_padding() const {
    const std::vector<ValueId> paddable = paddable_operands(program_, instruction_);
    bool padded = false;
    for (const auto* values : {&instruction_.inputs, &instruction_.outputs}) {
      for (const ValueId id : *values) {
        const Value& value = program_.value(id);
        padded |= value.padded_rows;
        check(!value.padded_rows ||
                  (!value.persistent() && std::ranges::find(paddable, id) != paddable.end()),
              "{} {} takes no padded rows, but {} has them", spec_.name, instruction_.name,
              value.name);
      }
    }
    for (const ValueId id : paddable) {
      check(program_.value(id).padded_rows == padded,
            "{} {} takes one row stride, and the rows of {} are {}padded", spec_.name,
            instruction_.name, program_.value(id).name, padded ? "not " : "");
    }
  }

  // Checks each repetition of repeated operands by itself. Class statistics are exempt: they have a
  // part per rank, whatever the share of the classes.
  void check_shares(size_t written) const {
    if (spec_.reshard || instruction_.opcode == Opcode::cross_entropy_stats) {
      return;
    }
    std::map<std::pair<size_t, int>, ShareNumber> shares;  // by axis and repetition
    const auto check_all = [&](const std::vector<ValueId>& values, size_t count,
                               const OperandList& operands) {
      for (size_t k = 0; k < count; ++k) {
        const Value& value = program_.value(values[k]);
        for (size_t axis = 0; axis < value.layout.size(); ++axis) {
          if (value.layout[axis].is_shard()) {
            const ShareNumber share = value.layout[axis].share;
            const auto [first, is_new] =
                shares.try_emplace({axis, operands.repetition(k, count)}, share);
            check(first->second == share, "{} {} takes parts of one share, but {} is {}",
                  spec_.name, instruction_.name, value.name, to_string(value.layout));
          }
        }
      }
    };
    check_all(instruction_.inputs, instruction_.inputs.size(), spec_.signature.inputs);
    check_all(instruction_.outputs, written, spec_.signature.outputs);
  }

  // Checks that only sums of gradients over ranks are rounded, with a buffer for it as last output.
  void check_sent_as(size_t written) const {
    const Instruction& i = instruction_;
    const auto rounds = [&](ValueId id) { return !program_.value(id).summed_along.empty(); };
    if (!i.sent_as) {
      check(std::ranges::none_of(i.outputs, rounds), "{} {} has a buffer for rounded sums",
            spec_.name, i.name);
      return;
    }
    const bool sums =
        spec_.reshard == ReshardKind::all_reduce || spec_.reshard == ReshardKind::reduce_scatter;
    check(sums && !i.flat && i.phase == Phase::backward && i.bucket >= 0 && !i.recomputed,
          "{} {} is sent as {}, and is no sum of gradients", spec_.name, i.name,
          name_of(*i.sent_as));
    check(program_.value(i.inputs[0]).dtype == DType::f32 && is_floating(*i.sent_as) &&
              *i.sent_as != DType::f32,
          "{} {} cannot be sent as {}", spec_.name, i.name, name_of(*i.sent_as));
    std::vector<ValueId> held = i.inputs;
    held.insert(held.end(), i.outputs.begin(),
                i.outputs.begin() + static_cast<std::ptrdiff_t>(written));
    std::vector<size_t> axes = {static_cast<size_t>(i.axis)};
    axes.insert(axes.end(), i.inner_axes.begin(), i.inner_axes.end());
    const Value& buffer = program_.value(i.outputs.back());
    check(std::ranges::count_if(i.outputs, rounds) == 1 && buffer.holds == held &&
              buffer.summed_along == axes && buffer.dtype == *i.sent_as,
          "{} {} has no buffer for what it rounds", spec_.name, i.name);
  }

  // Checks that all operands but a rounding buffer have one dtype, and sums a floating one.
  void check_reshard() const {
    const DType dtype = program_.value(instruction_.inputs[0]).dtype;
    const bool sums =
        spec_.reshard == ReshardKind::all_reduce || spec_.reshard == ReshardKind::reduce_scatter;
    check(!sums || is_floating(dtype), "{} {} sums integers", spec_.name, instruction_.name);
    for (const auto* values : {&instruction_.inputs, &instruction_.outputs}) {
      for (const ValueId value : *values) {
        if (program_.value(value).summed_along.empty()) {
          expect(value, dtype);
        }
      }
    }
  }

  void check_convert() const {
    const Instruction& i = instruction_;
    check(i.inputs.size() == i.outputs.size(), "{} has other numbers of inputs and outputs",
          i.name);
    const DType from = program_.value(i.inputs[0]).dtype;
    const DType to = program_.value(i.outputs[0]).dtype;
    check(from != to && is_floating(from) && is_floating(to) &&
              (from == DType::f32 || to == DType::f32),
          "{} converts {} to {}", i.name, name_of(from), name_of(to));
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      expect(i.inputs[k], from);
      expect(i.outputs[k], to);
    }
  }

  void expect(ValueId id, DType wanted) const {
    const Value& value = program_.value(id);
    check(value.dtype == wanted, "{} {} takes {} as {}, but it is {}", spec_.name,
          instruction_.name, value.name, name_of(wanted), name_of(value.dtype));
  }

  const Program& program_;
  const Instruction& instruction_;
  const OpcodeSpec& spec_;
  DType element_;
};

}  // namespace

void verify_operands(const Program& program, const Instruction& instruction) {
  OperandCheck(program, instruction).run();
}

}  // namespace hidup
