// Where every value lies in a rank's arena.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace hidup {

// Every value starts at a multiple of this, so that kernels may use aligned vectors.

struct MemoryPlan {
  std::vector<int64_t> offsets;  // bytes, per value
  std::vector<int64_t> sizes;    // bytes, per value: this rank's part
  int64_t bytes = 0;             // of the whole arena
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t activation_bytes = 0;  // the space that activations share
};

// Where a program keeps its parameters and the optimizer's state on this rank, for others that use
// them too.
struct StoredValues {
  struct Place {
    int64_t offset = 0;  // bytes
    DType dtype = DType::f32;
    Layout layout;
  };
  std::map<std::string, Place, std::less<>> places;  // by name
  int64_t bytes = 0;  // of all that the program keeps from step to step: others stay behind it
};
StoredValues stored_values(const Program& program, const MemoryPlan& plan);

// Persistent values lie one behind the other: parameters, gradients (in the order
// of Program::values, so that a bucket is one piece), optimizer state, inputs, results.
// Activations share the space behind them: two may overlap if every use of one
// happens before the first use of the other.
MemoryPlan plan_memory(const Program& program, int64_t rank);

// The same for a program whose parameters and optimizer's state are those of another one: they lie
// where that keeps them, all else behind. Throws Error(internal) where one is missing there, or has
// another type or layout.
MemoryPlan plan_memory(const Program& program, int64_t rank, const StoredValues& stored);

// Of the first rank, which has the largest parts; where parts are unequal, of the rank that needs
// most.
MemoryPlan largest_plan(const Program& program);

// "15.84 MiB per rank: parameters 1.76 MiB, ..."
std::string describe(const MemoryPlan& plan);

// The largest values of a rank, for messages about memory: "head.weight 2.1 MiB (parameter), ...".
std::string largest_values(const Program& program, const MemoryPlan& plan, size_t count);

}  // namespace hidup
