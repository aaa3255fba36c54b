// The accesses of values, and the order of instructions across streams.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "program/program.h"

namespace hidup {

struct Access {
  int instruction = 0;
  bool reads = false;
  bool writes = false;
};

// The accesses of every value by the instructions that a rank runs, in list order.
class Accesses {
 public:
  Accesses(const Program& program, const RankSteps& steps);
  explicit Accesses(const Program& program) : Accesses(program, RankSteps(program)) {}
  std::span<const Access> operator[](size_t value) const {
    return std::span(list_).subspan(starts_[value], starts_[value + 1] - starts_[value]);
  }
  // Returns, per stream, the last instruction that uses the value; -1: none.
  const std::array<int, kStreams>& last_uses(size_t value) const { return last_uses_[value]; }

 private:
  std::vector<Access> list_;    // value by value
  std::vector<size_t> starts_;  // [values + 1], positions in the list
  std::vector<std::array<int, kStreams>> last_uses_;
};

// The order that streams and waits guarantee on a rank. An instruction comes after the earlier ones
// of its stream, after those that it waits for, and after everything that these come after.
class HappensBefore {
 public:
  HappensBefore(const Program& program, const RankSteps& steps);
  explicit HappensBefore(const Program& program) : HappensBefore(program, RankSteps(program)) {}
  // Returns true where instruction a is done before b starts, whatever the timing. The rank runs
  // both.
  bool operator()(int a, int b) const;

 private:
  std::vector<StreamKind> stream_;
  // Per instruction and stream: the last instruction of that stream that is done before it.
  std::vector<std::array<int, kStreams>> clock_;
};

}  // namespace hidup
