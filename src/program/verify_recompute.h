// The part of verify() about recomputation.
#pragma once

#include "program/program.h"

namespace hidup {

// Throws Error(internal) naming the instruction unless every recomputed instruction belongs to the
// backward pass, writes values that the forward pass did not write, and restores in each output the
// content that the forward pass gave to some value: by the same operation with the same attributes
// and random numbers, from values with the same content in the same layouts. The check follows
// content from parameters and inputs on. A copy to another layout has the same content, and a fused
// instruction counts as its steps.
void verify_recompute(const Program& program);

}  // namespace hidup
