// The values and instructions that lower() writes; for the passes of this folder only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/lower.h"
#include "program/program.h"
#include "sharding/strategy.h"

namespace hidup {

using ValueIds = std::vector<ValueId>;

// The phase, microbatch and operation that an instruction belongs to.
struct Scope {
  Phase phase = Phase::forward;
  int microbatch = 0;   // counted through all groups; selects the list of its place in the group
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

// Collects a list of instructions per microbatch of a group; weave() puts them into the program.
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, const Mesh& mesh, int microbatches, RouteChooser choose);

  // Reserves room for the values and instructions expected of one microbatch, so lists do not move.
  void reserve(size_t values, size_t instructions);

  Value& value(ValueId id) { return program_.values.at(static_cast<size_t>(id)); }
  const Value& value(ValueId id) const { return program_.value(id); }
  const Mesh& mesh() const { return program_.mesh; }
  Layout replicated() const { return Layout(program_.mesh.size(), Placement::replicate()); }
  Program& program() { return program_; }
  const Program& program() const { return program_; }
  Program take() { return std::move(program_); }

  ValueId add(Value value);
  // Adds an instruction with the opcode's default attributes.
  Instruction& emit(const Scope& scope, Opcode opcode, const std::string& name, ValueIds inputs,
                    ValueIds outputs);

  void append(int microbatch, Instruction instruction);
  // Returns the length of the microbatch's list, and its instructions from `first` on.
  size_t length(int microbatch) { return list_of(microbatch).instructions.size(); }
  std::span<Instruction> from(int microbatch, size_t first) {
    return std::span(list_of(microbatch).instructions).subspan(first);
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

  // Ends a stage of the microbatch after the instructions written so far.
  void cut(int microbatch);
  // Moves the lists into the program stage by stage, in each stage one microbatch after the other,
  // so that one computes while another communicates (duplex.cpp).
  void weave();

 private:
  // The part of a pass that belongs to one microbatch.
  struct List {
    std::vector<Instruction> instructions;
    std::vector<size_t> cuts;  // rising
  };

  void emit_reshard(const Scope& scope, const ReshardStep& step, const std::string& name,
                    const ValueIds& inputs, ValueIds outputs);
  List& list_of(int microbatch) { return lists_[static_cast<size_t>(microbatch) % lists_.size()]; }
  double bytes_of(const ValueIds& values) const;
  bool one_piece(const ValueIds& values) const;

  Program program_;
  const RouteChooser choose_route_;
  std::vector<List> lists_;  // per microbatch
};

}  // namespace hidup
