// Instructions that become one, with one pass over memory: for lower(), before insert_waits().
#pragma once

#include <utility>
#include <vector>

#include "program/program.h"

namespace hidup {

// Makes one instruction (matmul_bias...) of a product of the forward pass, the bias of its columns
// and the ReLU or GELU behind that, where nothing else reads the product and nothing comes between
// them but copies and gathers of parameters. Not those of experts, whose empty slots get no bias.
// `first`: the instruction from which on.
void fuse_epilogues(Program& program, size_t first = 0);

// Makes one instruction of two of the backward pass, where nothing else touches what they share in
// between: of a product's input gradient and GELU's backward pass behind it
// (matmul_backward_input_gelu), of a weight's gradient and its bias's before it
// (matmul_backward_weight_bias), neither of experts, and of a norm's backward pass and the sum with
// what its input's gradient has from elsewhere (layer_norm_backward_add and RMS norm's).
void fuse_backward(Program& program);

// Makes one instruction (residual_norm) of a norm of the forward pass, the sum before it and
// the dropout of what is added, where nothing comes between them but copies and gathers of
// parameters.
void fuse_residual_norms(Program& program, size_t first = 0);

// The instruction behind i, but for those of parameters, which belong to no microbatch: they may
// come in between, and go before what is fused. The list's size if there is none.
size_t behind_parameters(const std::vector<Instruction>& list, size_t i);

// From `first` on: what chain_at(i) finds of instruction i, one in the middle (which may be the
// first or the last) and the last one becomes fuse(i, chain). What lies between goes before it.
template <typename ChainAt, typename Fuse>
void fuse_chains(std::vector<Instruction>& list, size_t first, ChainAt chain_at, Fuse fuse) {
  size_t end = first;  // of those that stay: what is not moved costs nothing
  const auto keep = [&](size_t i) {
    if (end != i) {
      list[end] = std::move(list[i]);
    }
    ++end;
  };
  for (size_t i = first; i < list.size(); ++i) {
    const auto chain = chain_at(i);
    if (!chain) {
      keep(i);
      continue;
    }
    Instruction one = fuse(i, *chain);
    for (size_t between = i + 1; between < chain->last; ++between) {
      if (between != chain->middle) {
        keep(between);
      }
    }
    list[end++] = std::move(one);
    i = chain->last;
  }
  list.resize(end);
}

// Whether the same ranks have parts of both: otherwise some would skip one instruction only.
bool on_same_ranks(const Program& program, ValueId a, ValueId b);

// Whether that input of `next` is what `first` wrote, in the same pass of the same microbatch.
inline bool takes(const Instruction& next, size_t input, const Instruction& first) {
  return input < next.inputs.size() && next.inputs[input] == first.outputs[0] &&
         next.phase == first.phase && next.microbatch == first.microbatch &&
         next.stage == first.stage;
}

}  // namespace hidup
