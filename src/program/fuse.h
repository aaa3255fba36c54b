// Fuses instructions into one that passes over memory once: for lower(), before insert_waits().
#pragma once

#include <utility>
#include <vector>

#include "program/program.h"

namespace hidup {

// Fuses a product of the forward pass with the bias of its columns and the ReLU or GELU after it
// (matmul_bias...), from instruction `first` on. Nothing else may read the product; only copies and
// gathers of parameters may come between. Products of experts stay: empty slots get no bias.
void fuse_epilogues(Program& program, size_t first = 0);

// Fuses pairs of the backward pass, except for products of experts, where nothing else touches the
// shared value in between:
// - a product's input gradient and the GELU backward pass after it (matmul_backward_input_gelu);
// - a bias gradient and the weight gradient after it (matmul_backward_weight_bias);
// - a norm's backward pass and the sum with the other part of its input's gradient
//   (layer_norm_backward_add, rms_norm_backward_add).
void fuse_backward(Program& program);

// Fuses a norm of the forward pass with the sum before it and the dropout of a summand
// (residual_norm). Only copies and gathers of parameters may come between.
void fuse_residual_norms(Program& program, size_t first = 0);

// Returns the next instruction after i that belongs to a microbatch, or the list's size. Those of
// parameters belong to none: they may come in between, and move before the fused instruction.
size_t behind_parameters(const std::vector<Instruction>& list, size_t i);

// Replaces chains of instructions, from `first` on, by fuse(i, chain). chain_at(i) finds the chain
// that begins with i: its middle (which may be the first or the last) and its last instruction. The
// instructions between them move before the fused one.
template <typename ChainAt, typename Fuse>
void fuse_chains(std::vector<Instruction>& list, size_t first, ChainAt chain_at, Fuse fuse) {
  size_t end = first;  // end of the instructions that stay; those that do not move cost nothing
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

// Returns true where the same ranks have parts of both; otherwise a rank would skip only one.
bool on_same_ranks(const Program& program, ValueId a, ValueId b);

// Returns true where the input of `next` is the output of `first`, in the same pass and microbatch.
inline bool takes(const Instruction& next, size_t input, const Instruction& first) {
  return input < next.inputs.size() && next.inputs[input] == first.outputs[0] &&
         next.phase == first.phase && next.microbatch == first.microbatch &&
         next.stage == first.stage;
}

}  // namespace hidup
