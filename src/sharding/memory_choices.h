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

// What the backward pass computes again: nothing; cheap: what takes few operations per number
// (norms, biases, activations, dropout); block: everything in a block but what others read.
enum class Recompute { none, cheap, block };

inline constexpr Recompute kRecomputes[] = {Recompute::none, Recompute::cheap, Recompute::block};
std::string_view name_of(Recompute level);
// Throws Error(usage) where it is the name of none.
Recompute recompute_of(std::string_view name);

// Per operation: whether the level has it computed again. A block are operations one behind the
// other of which the names are equal up to their first number, such as "layers.3.": in a graph
// without such names the level block is as none.
std::vector<bool> recomputed_ops(const Graph& graph, Recompute level);

// All operations as the level has them, whatever the strategy said.
Strategy with_recompute(const Graph& graph, Strategy strategy, Recompute level);

// Whether it has any: groups, operations computed again, parameters kept for a pass.
bool has_memory_choices(const Strategy& strategy);

// All parameters kept so.
Strategy with_kept(Strategy strategy, Kept kept);

}  // namespace hidup
