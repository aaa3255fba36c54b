// Workloads: experts that a rule gives the tokens in place of the router's logits, so that the
// experts have set loads (model.moe.router: trace, balanced, hot-experts, ...).
//
// A token's experts depend on the seed, the step, the layer with experts and the token's row-major
// index in the step's batch, never on how the batch is cut, and are distinct. But for hash, each
// expert's load is exact. The choices of a step, tokens x choices, are divided in proportion to the
// workload's weights: no expert has more than all tokens, and what rounding leaves goes to the
// largest remainders. Choices then lie one after the other by expert, and the token at place p of a
// permutation has choices p, p + tokens, p + 2 tokens and so on, which are of different experts
// because no expert has more than `tokens` of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/region.h"
#include "deck/deck.h"
#include "program/program.h"

namespace hidup {

// The place in a training that a workload gives experts to.
struct WorkloadAt {
  int64_t step = 1;   // from 1
  int64_t layer = 0;  // among the layers with experts
};

// Returns the choices of each expert in a step of so many tokens; for all workloads but hash.
std::vector<int64_t> workload_loads(const Deck& deck, const WorkloadAt& at, int64_t tokens);

// Returns the experts of a part [batch, sequence, choices] of the step's tokens.
std::vector<int32_t> workload_choices(const Deck& deck, const WorkloadAt& at, const Region& part);

// Returns the rank's parts of all Program::choices.
std::vector<std::vector<int32_t>> choices_of(const Program& program, int64_t rank, const Deck& deck,
                                             int64_t step);

}  // namespace hidup
