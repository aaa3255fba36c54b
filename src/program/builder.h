// The values and instructions that lower() writes; for the passes of this folder only.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "program/lower.h"
#include "program/program.h"
#include "sharding/strategy.h"

namespace hidup {

using ValueIds = std::vector<ValueId>;

// The phase, microbatch and operation that an instruction belongs to.
struct Scope {
  Phase phase = Phase::forward;
  int list = 0;         // of the builder
  int microbatch = 0;   // counted through all groups
  bool common = false;  // the instruction belongs to no microbatch
  OpId op = -1;
  int input = -1;
  int bucket = -1;
  std::optional<DType> sums_sent_as = {};  // Instruction::sent_as of sums over ranks

  Scope for_input(size_t i) const {
    Scope scope = *this;
    scope.input = static_cast<int>(i);
    return scope;
  }
};

// Collects lists of instructions, one per microbatch of a task; weave() puts them into the program.
class ProgramBuilder {
 public:
  // `pipeline`: the axis whose ranks work in the order of a schedule.
  ProgramBuilder(std::string name, const Mesh& mesh, RouteChooser choose,
                 std::optional<size_t> pipeline = {});

  // Reserves room for the values and instructions expected of `microbatches`.
  void reserve(size_t values, size_t instructions, size_t microbatches);
  // Begins so many lists, after a weave(), instead of one.
  void begin(size_t lists) { lists_.resize(lists); }

  Value& value(ValueId id) { return program_.values.at(static_cast<size_t>(id)); }
  const Value& value(ValueId id) const { return program_.value(id); }
  const Mesh& mesh() const { return program_.mesh; }
  Layout replicated() const { return Layout(program_.mesh.size(), Placement::replicate()); }
  Program& program() { return program_; }
  const Program& program() const { return program_; }
  Program take() { return std::move(program_); }

  ValueId add(Value value);
  // Adds a value of the tensor, whose packed rows are counted by what tell_counts() was told.
  ValueId add(Value value, const Tensor& of, int microbatch);
  // Names the whole counts of a microbatch's packed rows (PackedRows::counts).
  void tell_counts(TensorId counts, int microbatch, ValueId whole) {
    whole_counts_[{counts, microbatch}] = whole;
  }
  // Adds an instruction with the opcode's default attributes.
  Instruction& emit(const Scope& scope, Opcode opcode, const std::string& name, ValueIds inputs,
                    ValueIds outputs);

  void append(const Scope& scope, Instruction instruction);
  // Returns the length of the scope's list, and its instructions from `first` on.
  size_t length(const Scope& scope) { return list_of(scope).instructions.size(); }
  std::span<Instruction> from(const Scope& scope, size_t first) {
    return std::span(list_of(scope).instructions).subspan(first);
  }

  // Brings values to another layout. Returns the values themselves, new ones, or `into` if given.
  // One instruction serves all where all communicate. `overwrite`: old values may be overwritten.
  ValueIds reshard(const Scope& scope, const ValueIds& from, const Layout& to,
                   const std::string& name, bool overwrite, const ValueIds& into = {});
  ValueId reshard(const Scope& scope, ValueId from, const Layout& to, const std::string& name,
                  bool overwrite);
  // Returns the value itself if it has that dtype, otherwise a rounded one: `into`, or a new value.
  ValueId convert(const Scope& scope, ValueId value, DType dtype, const std::string& name,
                  ValueId into = -1);

  // Ends a stage of the scope's list after the instructions written so far.
  void cut(const Scope& scope);
  // Moves the lists into the program stage by stage, in each stage one list after the other, so
  // that one computes while another communicates (duplex.cpp). `slot`: Instruction::slot.
  void weave(int slot = -1);

 private:
  struct List {
    std::vector<Instruction> instructions;
    std::vector<size_t> cuts;  // rising
  };

  void emit_reshard(const Scope& scope, const ReshardStep& step, const std::string& name,
                    const ValueIds& inputs, ValueIds outputs);
  List& list_of(const Scope& scope) { return lists_.at(static_cast<size_t>(scope.list)); }
  // Returns true for messages between stages of the pipeline.
  bool leaves_stage(const Scope& scope, const ReshardStep& step, const Placement& from,
                    const Placement& to) const;
  double bytes_of(const ValueIds& values) const;
  bool one_piece(const ValueIds& values) const;

  Program program_;
  const RouteChooser choose_route_;
  const std::optional<size_t> pipeline_;
  std::map<std::pair<TensorId, int>, ValueId> whole_counts_;  // by microbatch
  std::vector<List> lists_ = std::vector<List>(1);
};

}  // namespace hidup
