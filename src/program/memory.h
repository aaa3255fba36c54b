// The place of every value in a rank's arena.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace hidup {

// Offsets are multiples of kValueAlignment, so that kernels may use aligned vectors.

struct MemoryPlan {
  std::vector<int64_t> offsets;  // bytes, per value
  std::vector<int64_t> sizes;    // bytes of this rank's part, per value
  int64_t rank = 0;
  int64_t bytes = 0;  // size of the whole arena
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t activation_bytes = 0;  // the space that activations share
};

// The places of a program's parameters and optimizer state on a rank, for programs that share them.
struct StoredValues {
  struct Place {
    int64_t offset = 0;  // bytes
    DType dtype = DType::f32;
    Layout layout;
  };
  std::map<std::string, Place, std::less<>> places;  // by name
  int64_t bytes = 0;  // size of everything the program keeps from step to step; other programs use
                      // the memory after it
};
StoredValues stored_values(const Program& program, const MemoryPlan& plan);

// Plans the rank's memory. Persistent values come first, one after the other: parameters, gradients
// (in the order of Program::values, so that a bucket is contiguous), optimizer state, inputs,
// results. Activations share the memory after those: two may overlap if all uses of one precede the
// first use of the other.
MemoryPlan plan_memory(const Program& program, int64_t rank);

// Plans memory for a program that shares the parameters and optimizer state of another: these stay
// in their places, and everything else comes after. Throws Error(internal) where the other program
// lacks one, or has it with another type or layout.
MemoryPlan plan_memory(const Program& program, int64_t rank, const StoredValues& stored);

// Returns the plan of the rank that needs most: the first one, unless parts are unequal.
MemoryPlan largest_plan(const Program& program);

// The bytes that plans may use, where the ranks' memories differ: of every rank. Empty: all alike.
using RankLimits = std::vector<int64_t>;

// Returns the bytes of every rank's plan, up to one element of each value.
std::vector<int64_t> bytes_of_ranks(const Program& program);

// Returns the rank that uses the largest part of its limit; without limits, that needs most.
int64_t tightest_rank(const std::vector<int64_t>& bytes_of_ranks, const RankLimits& limits);

// Returns the plan of the tightest_rank().
MemoryPlan tightest_plan(const Program& program, const RankLimits& limits);

// Returns "15.84 MiB per rank: parameters 1.76 MiB, ...".
std::string describe(const MemoryPlan& plan);

// Lists a rank's largest values for error messages: "head.weight 2.1 MiB (parameter), ...".
std::string largest_values(const Program& program, const MemoryPlan& plan, size_t count);

}  // namespace hidup
