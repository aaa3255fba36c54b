// What the backward pass does again, for verify(): proven from the list alone.
#pragma once

#include "program/program.h"

namespace hidup {

// Throws Error(internal) naming the instruction unless every one that is done again belongs to the
// backward pass, writes values that the forward pass did not write, and leaves in each what an
// instruction of the forward pass left in a value: by the same operation with the same attributes
// and random numbers, of values with the same content in the same layouts. Content is followed from
// parameters and inputs on; copies to other layouts keep it, and what is fused is seen as its
// steps.
void verify_again(const Program& program);

}  // namespace hidup
