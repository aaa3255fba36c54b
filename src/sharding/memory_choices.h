// Choices that trade time for memory, made for a whole strategy at once.
//
// Operations that work in place of what another one wrote share its value: it is computed again
// only if all of them are.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sharding/strategy.h"

namespace hidup {

// Levels of recomputation in the backward pass. cheap: operations with few flops per number (norms,
// biases, activations, dropout). block: everything in a block but values that others read.
enum class Recompute { none, cheap, block };

inline constexpr Recompute kRecomputes[] = {Recompute::none, Recompute::cheap, Recompute::block};
std::string_view name_of(Recompute level);
// Returns the level of that name. Throws Error(usage) where there is none.
Recompute recompute_of(std::string_view name);

// Returns for each operation whether the level recomputes it. A block is a run of operations whose
// names are equal up to their first number, such as "layers.3". In a graph without such names the
// level block recomputes nothing.
std::vector<bool> recomputed_ops(const Graph& graph, Recompute level);

// Returns the strategy with the level's recomputation of all operations, replacing its own.
Strategy with_recompute(const Graph& graph, Strategy strategy, Recompute level);

// Returns true if the strategy has groups, recomputation, or parameters gathered once per pass.
bool has_memory_choices(const Strategy& strategy);

// Returns the strategy with this residency of all parameters.
Strategy with_residency(Strategy strategy, Residency residency);

}  // namespace hidup
