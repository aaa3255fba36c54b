// Values and instructions while lower() writes them; for the passes of this folder only.
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

// What an instruction belongs to.
struct Scope {
  Phase phase = Phase::forward;
  int microbatch = 0;   // of all groups: it is written in the list of its place in the group
  bool common = false;  // it belongs to no microbatch
  OpId op = -1;
  int input = -1;
  int bucket = -1;
  std::optional<DType> sums_sent_as = {};  // Instruction::sent_as of its sums over ranks

  Scope for_input(size_t i) const {
    Scope scope = *this;
    scope.input = static_cast<int>(i);
    return scope;
  }
};

// Every microbatch of a group has a list of its own; weave() puts them into the program.
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, const Mesh& mesh, int microbatches, RouteChooser choose);

  // For values and instructions that one microbatch is expected to have: lists do not move then.
  void reserve(size_t values, size_t instructions);

  Value& value(ValueId id) { return program_.values.at(static_cast<size_t>(id)); }
  const Value& value(ValueId id) const { return program_.value(id); }
  const Mesh& mesh() const { return program_.mesh; }
  Layout replicated() const { return Layout(program_.mesh.size(), Placement::replicate()); }
  Program& program() { return program_; }
  const Program& program() const { return program_; }
  Program take() { return std::move(program_); }

  ValueId add(Value value);
  // With the attributes that its opcode has by default.
  Instruction& emit(const Scope& scope, Opcode opcode, const std::string& name, ValueIds inputs,
                    ValueIds outputs);

  void append(int microbatch, Instruction instruction);
  // Of the microbatch's list: how many instructions it has, and those from one on.
  size_t length(int microbatch) { return list_of(microbatch).instructions.size(); }
  std::span<Instruction> from(int microbatch, size_t first) {
    return std::span(list_of(microbatch).instructions).subspan(first);
  }

  // Brings values of one layout to another: themselves, or new ones, or `into` where that is given.
  // One instruction where all of them communicate. `overwrite`: nobody needs the old ones any more.
  ValueIds reshard(const Scope& scope, const ValueIds& from, const Layout& to,
                   const std::string& name, bool overwrite, const ValueIds& into = {});
  ValueId reshard(const Scope& scope, ValueId from, const Layout& to, const std::string& name,
                  bool overwrite);
  // The value itself where it has that type, otherwise a rounded one in `into`, or in a new value.
  ValueId convert(const Scope& scope, ValueId value, DType dtype, const std::string& name,
                  ValueId into = -1);

  // A stage of the microbatch ends behind what has been written.
  void cut(int microbatch);
  // Moves the lists into the program: stage by stage, in each stage one microbatch after the other,
  // so that one computes while another communicates (duplex.cpp).
  void weave();

 private:
  // What one microbatch's part of a pass is.
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
